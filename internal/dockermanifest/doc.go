// Package dockermanifest is "docker manifest": its verbs, its messages and its
// local lists, so that a script may say "manifold manifest" instead.
//
// A list is kept where Docker's CLI keeps it, one file per source in
// $DOCKER_CONFIG/manifests/LIST, in the same form, and one tool can go on where
// the other has stopped. What this package writes besides, Docker does not look
// at: which list an entry belongs to, since Docker gives one directory to
// different names ("foo:a-b" and "foo-a:b"), and the attestations of an image.
//
// Unlike Docker, it keeps the bytes of every child and asks for them again where
// an entry lacks them, takes sources from other registries and sources that are
// indexes, reads a tag again on --amend, saves nothing of a create that failed,
// and says "no such manifest" only of what is not there. docs/docker-manifest.md
// lists every difference.
//
// It refuses an entry whose bytes are not those of its digest, and a list with
// an entry that has no platform. It prints nothing; results come back as text.
//
// Read lists.go first, then a verb (create.go, push.go), then store.go.
package dockermanifest
