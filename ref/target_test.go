package ref

import "testing"

func TestTargetsAreSpelledLikeTheirLocation(t *testing.T) {
	for _, s := range []string{"oci:/srv/images:1", "oci-archive:/tmp/a.tar:latest", "localhost:5000/app:1", "oci:/srv/a b/c:d/e:1"} {
		r, err := ParseTarget(s)
		if err != nil || r.String() != s {
			t.Errorf("%s became %s, %v", s, r, err)
		}
		if l := r.AsLocation(); l.String() != s {
			t.Errorf("%s back again is %s", s, l)
		}
	}
	r, err := ParseTarget("oci:/srv/images:1")
	if want := "oci:/srv/images"; err != nil || r.Name() != want || r.WithTag("2").String() != want+":2" {
		t.Errorf("name %s, other tag %s, %v", r.Name(), r.WithTag("2"), err)
	}
}
