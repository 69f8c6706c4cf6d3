package dockermanifest

import "errors"

// Remove removes lists from the store, all that it can, and joins the errors:
// [*NameError], [*NotFoundError].
func (l *Lists) Remove(lists []string) error {
	var errs []error
	for _, list := range lists {
		name, err := parse(list)
		if err == nil {
			err = l.Store.Remove(name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
