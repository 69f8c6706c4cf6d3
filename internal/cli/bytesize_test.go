package cli

import "testing"

func TestByteSizes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "12": 12, "12b": 12, "1k": 1 << 10, "64MB": 64 << 20, "64MiB": 64 << 20, " 2g": 2 << 30, "1TB": 1 << 40,
	} {
		var b byteSize
		if err := b.Set(in); err != nil || int64(b) != want {
			t.Errorf("%q: %d, %v", in, b, err)
		}
	}
	for _, in := range []string{"", "x", "-1", "1.5M", "M", "1MM", "9999999T", "2T", "99999999999999999999", "1kk", "1ib", "ib", "1i", "1ki", "+1", "1 k"} {
		var b byteSize
		if err := b.Set(in); err == nil {
			t.Errorf("%q: %d", in, b)
		}
	}
}
