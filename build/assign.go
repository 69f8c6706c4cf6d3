package build

import (
	"slices"

	"github.com/manifold-oci/manifold/oci"
)

// Candidate is what is known of one node when platforms are given out.
type Candidate struct {
	Name string
	// Declared is what the user gave the node.
	Declared []oci.Platform
	// Listed is what the node reports, most native first. Nil if it was not
	// asked or did not answer.
	Listed []oci.Platform
	// Busy is how many builds are under way on it.
	Busy int
}

// Assignment gives a platform to the node with this index.
type Assignment struct {
	Platform oci.Platform
	Node     int
	// Emulated: the node does not list the platform.
	Emulated bool
}

// Assign gives each platform to one node, in the order of platforms without
// repetitions. A node that declares the platform wins; else the node that
// lists it earliest. Equal nodes share: the one with the fewest builds, those
// under way and the platforms so far, then the first. A platform that nobody has is a *NoNodeError, or, with
// emulate, goes to the first node with the same operating system (to the
// first node if there is none).
func Assign(platforms []oci.Platform, candidates []Candidate, emulate bool) ([]Assignment, error) {
	load := make([]int, len(candidates))
	for i, c := range candidates {
		load[i] = c.Busy
	}
	var out []Assignment
	for _, p := range unique(platforms) {
		a := Assignment{Platform: p, Node: best(p, candidates, load)}
		if a.Node < 0 {
			if !emulate || len(candidates) == 0 {
				return nil, noNode(p, candidates)
			}
			a.Node, a.Emulated = sameSystem(p, candidates), true
		}
		load[a.Node]++
		out = append(out, a)
	}
	return out, nil
}

// contested lists the candidates that fit some platform as well as another one
// does: there it matters how busy they are.
func contested(platforms []oci.Platform, candidates []Candidate) []int {
	var out []int
	for _, p := range platforms {
		at := best(p, candidates, make([]int, len(candidates)))
		if at < 0 {
			continue
		}
		var equal []int
		for i, c := range candidates {
			if rank(p, c) == rank(p, candidates[at]) {
				equal = append(equal, i)
			}
		}
		if len(equal) > 1 {
			out = append(out, equal...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// best returns the index of the candidate that fits p best, or -1.
func best(p oci.Platform, candidates []Candidate, load []int) int {
	at, atRank := -1, 0
	for i, c := range candidates {
		r := rank(p, c)
		if r < 0 {
			continue
		}
		if at < 0 || r < atRank || (r == atRank && load[i] < load[at]) {
			at, atRank = i, r
		}
	}
	return at
}

// rank is 0 for a declared platform, 1 and up for a listed one, -1 for none.
func rank(p oci.Platform, c Candidate) int {
	satisfies := func(have oci.Platform) bool { return oci.SatisfiesPlatform(p, have) }
	if slices.ContainsFunc(c.Declared, satisfies) {
		return 0
	}
	if i := slices.IndexFunc(c.Listed, satisfies); i >= 0 {
		return i + 1
	}
	return -1
}

func sameSystem(p oci.Platform, candidates []Candidate) int {
	i := slices.IndexFunc(candidates, func(c Candidate) bool {
		return slices.ContainsFunc(c.has(), func(have oci.Platform) bool { return have.OS == p.OS })
	})
	return max(i, 0)
}

func (c Candidate) has() []oci.Platform {
	return unique(slices.Concat(c.Declared, c.Listed))
}

func noNode(p oci.Platform, candidates []Candidate) *NoNodeError {
	e := &NoNodeError{Platform: &p, Nodes: map[string][]oci.Platform{}}
	for _, c := range candidates {
		e.Nodes[c.Name] = c.has()
	}
	return e
}

// unique keeps the first of platforms that a runtime cannot tell apart.
func unique(ps []oci.Platform) []oci.Platform {
	seen := map[string]bool{}
	var out []oci.Platform
	for _, p := range ps {
		if key := oci.PlatformKey(p); !seen[key] {
			seen[key] = true
			out = append(out, p)
		}
	}
	return out
}
