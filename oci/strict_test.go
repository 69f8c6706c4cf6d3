package oci_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
)

// refused asserts a *SyntaxError whose text holds reason.
func refused(t *testing.T, name, reason string, err error) {
	t.Helper()
	var s *oci.SyntaxError
	if !errors.As(err, &s) {
		t.Errorf("%s: got %v, want a *SyntaxError", name, err)
		return
	}
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %q does not say %q", name, err, reason)
	}
}

// What two readers could read as two different images is read by nobody.
func TestParseIndexRefusesWhatReadersDisagreeOn(t *testing.T) {
	a := entry(digestA, "")
	body := func(members string) string {
		return `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `",` + members + `}`
	}
	for name, c := range map[string]struct{ body, reason string }{
		"duplicate manifests":         {body(`"manifests":[],"manifests":[` + a + `]`), `/manifests: duplicate key "manifests"`},
		"duplicate, escaped":          {body(`"manifests":[],"\u006danifests":[` + a + `]`), `duplicate key "manifests"`},
		"duplicate in a descriptor":   {body(`"manifests":[` + entry(digestA, `,"digest":"`+digestB+`"`) + `]`), `/manifests/0/digest: duplicate key`},
		"duplicate in a platform":     {body(`"manifests":[` + entry(digestA, `,"platform":{"os":"linux","os":"windows","architecture":"amd64"}`) + `]`), "duplicate key"},
		"duplicate annotation":        {body(`"annotations":{"a":"1","a":"2"},"manifests":[]`), "duplicate key"},
		"duplicate in unknown member": {body(`"x":{"a":1,"a":2},"manifests":[]`), "duplicate key"},
		"Manifests":                   {body(`"manifests":[` + a + `],"Manifests":[]`), `/Manifests: key "Manifests" differs from "manifests" only in letter case`},
		"MANIFESTS first":             {body(`"MANIFESTS":[],"manifests":[` + a + `]`), "letter case"},
		"escaped case variant":        {body(`"manifests":[],"\u004danifests":[]`), "letter case"},
		"long s is an s":              {body(`"manifests":[],"manife\u017ft\u017f":[]`), "letter case"},
		"MediaType":                   {body(`"MediaType":"x","manifests":[]`), "letter case"},
		"Digest in a descriptor":      {body(`"manifests":[` + entry(digestA, `,"Digest":"`+digestB+`"`) + `]`), `/manifests/0/Digest: key "Digest"`},
		"Platform in a descriptor":    {body(`"manifests":[` + a + "," + entry(digestB, `,"Platform":{}`) + `]`), "/manifests/1/Platform"},
		"OS in a platform":            {body(`"manifests":[` + entry(digestA, `,"platform":{"os":"linux","OS":"x","architecture":"amd64"}`) + `]`), "/manifests/0/platform/OS"},
		"Size in the subject":         {body(`"manifests":[],"subject":{"mediaType":"a","digest":"` + digestA + `","size":1,"Size":2}`), "/subject/Size"},
		"byte order mark":             {"\xef\xbb\xbf" + body(`"manifests":[]`), "byte order mark"},
		"second value":                {body(`"manifests":[]`) + `{}`, "data after the JSON value"},
		"trailing text":               {body(`"manifests":[]`) + "\n x", "data after the JSON value"},
		"empty":                       {"", "empty or cut short"},
		"blank":                       {" \n", "empty or cut short"},
		"cut short":                   {body(`"manifests":[` + a)[:60], "empty or cut short"},
		"HTML":                        {"<!DOCTYPE html><html></html>", "not JSON"},
		"not UTF-8":                   {body(`"annotations":{"a":"` + "\xff" + `"},"manifests":[]`), "not JSON"},
		"an array":                    {`[]`, "an array is not what belongs here"},
		"null":                        {`null`, "schemaVersion"},
		"with config":                 {body(`"manifests":[],"config":{"mediaType":"a","digest":"` + digestA + `","size":1}`), "not both"},
		"with layers":                 {body(`"manifests":[],"layers":[]`), "not both"},
		"with fsLayers":               {body(`"manifests":[],"fsLayers":[]`), "schema 1"},
		"no manifests":                {body(`"annotations":{}`), "/manifests: missing"},
		"schema 1":                    {`{"schemaVersion":1,"name":"a","fsLayers":[],"history":[],"signatures":[]}`, "Docker schema 1 is not supported"},
		"schema 1, number only":       {`{"schemaVersion":1}`, "schema 1"},
		"schema 3":                    {`{"schemaVersion":3,"manifests":[]}`, "/schemaVersion: 3, want 2"},
		"no schema":                   {`{"manifests":[]}`, "/schemaVersion"},
		"schema as text":              {`{"schemaVersion":"2","manifests":[]}`, "/schemaVersion"},
		"entry without digest":        {body(`"manifests":[{"mediaType":"` + oci.MediaTypeManifest + `","size":1}]`), "/manifests/0/digest: missing"},
		"entry without media type":    {body(`"manifests":[{"digest":"` + digestA + `","size":1}]`), "/manifests/0/mediaType: missing"},
		"digest of another length":    {body(`"manifests":[` + entry("sha256:abc", "") + `]`), "/manifests/0/digest"},
		"digest that climbs":          {body(`"manifests":[` + entry("sha256:../../../../etc/passwd", "") + `]`), "/manifests/0/digest"},
		"digest in upper case":        {body(`"manifests":[` + entry(strings.ToUpper(digestA), "") + `]`), "/manifests/0/digest"},
		"unknown algorithm":           {body(`"manifests":[` + entry("md5:d41d8cd98f00b204e9800998ecf8427e", "") + `]`), "/manifests/0/digest"},
		"negative size":               {body(`"manifests":[{"mediaType":"a","digest":"` + digestA + `","size":-1}]`), "/manifests/0/size: -1 is negative"},
		"size over 64 bits":           {body(`"manifests":[{"mediaType":"a","digest":"` + digestA + `","size":9223372036854775808}]`), "/size"},
		"size as text":                {body(`"manifests":[{"mediaType":"a","digest":"` + digestA + `","size":"1"}]`), "/size"},
		"entry is not an object":      {body(`"manifests":["` + digestA + `"]`), "/manifests/0"},
		"data is not base64":          {body(`"manifests":[` + entry(digestA, `,"data":"***"`) + `]`), "/manifests/0/data"},
		"subject with a bad digest":   {body(`"manifests":[],"subject":{"mediaType":"a","digest":"x","size":1}`), "/subject/digest"},
		"nested for ever":             {body(`"x":` + strings.Repeat("[", 100000)), "nests deeper than 256"},
		"nested objects":              {body(`"x":` + strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300)), "nests deeper than 256"},
	} {
		_, err := oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, []byte(c.body)))
		refused(t, name, c.reason, err)
	}
}

func TestParseManifestRefusesWhatReadersDisagreeOn(t *testing.T) {
	config := `"config":{"mediaType":"` + oci.MediaTypeConfig + `","digest":"` + digestA + `","size":3}`
	body := func(members string) string { return `{"schemaVersion":2,` + members + `}` }
	for name, c := range map[string]struct{ body, reason string }{
		"Config":               {body(config + `,"Config":{}`), "letter case"},
		"Layers":               {body(config + `,"layers":[],"Layers":[]`), "letter case"},
		"Digest of the config": {body(`"config":{"mediaType":"a","digest":"` + digestA + `","Digest":"` + digestB + `","size":3}`), "/config/Digest"},
		"Digest of a layer":    {body(config + `,"layers":[{"mediaType":"a","digest":"` + digestA + `","Digest":"x","size":3}]`), "/layers/0/Digest"},
		"with manifests":       {body(config + `,"manifests":[]`), "not both"},
		"no config":            {body(`"layers":[]`), "/config: missing"},
		"bad layer":            {body(config + `,"layers":[{"mediaType":"a","digest":"sha256:1","size":3}]`), "/layers/0/digest"},
		"bad config":           {body(`"config":{"mediaType":"a","digest":"sha256:1","size":3}`), "/config/digest"},
	} {
		_, err := oci.ParseManifest(oci.NewBlob(oci.MediaTypeManifest, []byte(c.body)))
		refused(t, name, c.reason, err)
	}
}

// A member that means nothing here may be spelled as it likes.
func TestUnknownMembersAndFreeNamesAreKept(t *testing.T) {
	for name, b := range map[string][]byte{
		"annotations named like members": index(entry(digestA, `,"annotations":{"Digest":"x","digest":"y"}`)),
		"unknown object with members":    []byte(`{"schemaVersion":2,"x":{"Manifests":1,"manifests":2},"manifests":[]}`),
		"unknown member of a descriptor": index(entry(digestA, `,"x":[{"Digest":1}]`)),
		"indented with tabs":             []byte("{\n\t\"schemaVersion\": 2,\r\n\t\"manifests\": []\n}\r\n"),
		"nested as far as allowed":       []byte(`{"schemaVersion":2,"manifests":[],"x":` + strings.Repeat("[", oci.MaxNesting-1) + strings.Repeat("]", oci.MaxNesting-1) + `}`),
	} {
		if _, err := oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A document that is made to be slow must not cost the square of its size.
func TestManyNamesBelowALongNameAreReadInLinearTime(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	var names strings.Builder
	for i := range 100000 {
		names.WriteString(`"k` + strconv.Itoa(i) + `":0,`)
	}
	b := []byte(`{"schemaVersion":2,"manifests":[],"` + long + `":{` + names.String() + `"z":0}}`)
	if len(b) > oci.MaxManifestSize {
		t.Fatalf("fixture is %d bytes", len(b))
	}
	if _, err := oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, b)); err != nil {
		t.Fatal(err)
	}
}

func TestBodiesOverTheLimitAreNotParsed(t *testing.T) {
	pad := strings.Repeat(" ", oci.MaxManifestSize)
	_, err := oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, append(index(), pad...)))
	refused(t, "index", "the limit is 4194304", err)
	_, err = oci.ParseConfig([]byte(`{}` + strings.Repeat(" ", oci.MaxConfigSize)))
	refused(t, "config", "the limit is 8388608", err)
}

func FuzzParseIndex(f *testing.F) {
	f.Add(index(entry(digestA, ""), entry(digestB, `,"platform":{"os":"linux","architecture":"arm","variant":"v7"},"x":{"y":[1]}`)))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[],"Manifests":[]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":null}`))
	f.Add(manifest(`{"mediaType":"a","digest":"` + digestB + `","size":1}`))
	f.Add([]byte("\xef\xbb\xbf{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		idx, err := oci.ParseIndex(oci.NewBlob("", b))
		if err != nil {
			var s *oci.SyntaxError
			if !errors.As(err, &s) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		refs, err := oci.References(oci.NewBlob("", b))
		if err != nil || len(refs) != len(idx.Manifests) {
			t.Fatalf("ParseIndex sees %d entries, References %d, %v", len(idx.Manifests), len(refs), err)
		}
		for _, e := range idx.Manifests {
			if e.Digest.Validate() != nil || e.MediaType == "" || e.Size < 0 || len(e.Raw) == 0 {
				t.Fatalf("passes entry %+v", e)
			}
		}
		if _, err := oci.ParseManifest(oci.NewBlob("", b)); err == nil {
			t.Fatal("one body is an index and an image manifest")
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add(manifest())
	f.Add(manifest(`{"mediaType":"a","digest":"` + digestB + `","size":1,"urls":["http://x"]}`))
	f.Add([]byte(`{"schemaVersion":2,"config":null,"layers":null}`))
	f.Add([]byte(`{"schemaVersion":1,"fsLayers":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := oci.ParseManifest(oci.NewBlob("", b))
		if err != nil {
			var s *oci.SyntaxError
			if !errors.As(err, &s) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, d := range append(m.Layers, m.Config) {
			if d.Digest.Validate() != nil || d.Size < 0 {
				t.Fatalf("passes descriptor %+v", d)
			}
		}
	})
}
