package plan

// tagsLast checks that every tag that moves waits for all content of all
// targets, and every look afterwards for all moves.
func (p Plan) tagsLast() error {
	content, moves := phase{}, phase{}
	byID := map[string]Step{}
	for _, s := range p.Steps {
		byID[s.ID] = s
		switch s.Op {
		case CopyBlob, PutManifest, ReadBack:
			content.of = append(content.of, s.ID)
		case MoveTag:
			moves.of = append(moves.of, s.ID)
		}
	}
	for _, s := range p.Steps {
		var missing string
		switch s.Op {
		case MoveTag:
			missing = content.missing(s, byID)
		case ConfirmTag, Confirm:
			missing = moves.missing(s, byID)
		}
		if missing != "" {
			return s.fail("does not wait for step %s", missing)
		}
	}
	return nil
}

// phase is a set of steps that all have to be done before some others begin.
type phase struct {
	of []string
	// after are steps that are known to wait for all of them.
	after map[string]bool
}

// missing returns a step of the phase that s does not wait for, "" for none.
func (f *phase) missing(s Step, byID map[string]Step) string {
	reached := map[string]bool{}
	if !f.reach(s, byID, reached) {
		for _, id := range f.of {
			if !reached[id] {
				return id
			}
		}
	}
	if f.after == nil {
		f.after = map[string]bool{}
	}
	f.after[s.ID] = true
	return ""
}

// reach collects all that s waits for, and stops with true at a step that waits
// for the whole phase.
func (f *phase) reach(s Step, byID map[string]Step, reached map[string]bool) bool {
	todo := append([]string(nil), s.After...)
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if f.after[id] {
			return true
		}
		if !reached[id] {
			reached[id] = true
			todo = append(todo, byID[id].After...)
		}
	}
	return false
}
