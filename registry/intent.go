package registry

// WillWrite says that the repository is going to be written to, with blobs from
// other repositories of its host (paths), so that the first token that is fetched
// for reading allows the writing too: one challenge and one token instead of two.
// No request is made.
func (r *Repository) WillWrite(from ...string) {
	r.scopes().write(from...)
}
