package httpchain

import (
	"context"
	"math"
	"net/http"
	"testing"
	"time"
)

func TestRateIsPerHostAndEvenlySpread(t *testing.T) {
	now := time.Unix(0, 0)
	var waited []time.Duration
	clock := Clock{Now: func() time.Time { return now }, Sleep: func(_ context.Context, d time.Duration) error {
		waited = append(waited, d)
		return nil
	}}
	rt := rated(roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{}, nil }), 4, clock)
	for _, host := range []string{"a", "a", "a", "b", "b"} {
		req, err := http.NewRequest(http.MethodGet, "http://"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
	want := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, 250 * time.Millisecond}
	if len(waited) != 3 || waited[0] != want[0] || waited[1] != want[1] || waited[2] != want[2] {
		t.Errorf("waited %v, want %v", waited, want)
	}
	now = now.Add(time.Hour)
	if d := rt.(*rating).take("a"); d != 0 {
		t.Errorf("waits %s after a pause", d)
	}
}

func TestTinyRatesAreNotNone(t *testing.T) {
	for _, rate := range []float64{1e-12, 1e-300} {
		r := rated(nil, rate, Clock{Now: time.Now}).(*rating)
		r.take("a")
		if d := r.take("a"); d < slowest-time.Minute || d > slowest {
			t.Errorf("%g a second: the second waits %s", rate, d)
		}
	}
	if next := rated(http.DefaultTransport, math.NaN(), Clock{}); next != http.DefaultTransport {
		t.Errorf("no rate at all became %T", next)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
