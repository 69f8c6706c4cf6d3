package redact

// Error is an error whose text is redacted as [Text] does; nil stays nil, and
// one that says nothing secret stays itself.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if text := Text(err.Error()); text != err.Error() {
		return &quiet{text: text, err: err}
	}
	return err
}

// quiet is what may be said of an error. What it wraps is for errors.As.
type quiet struct {
	text string
	err  error
}

func (e *quiet) Error() string { return e.text }
func (e *quiet) Unwrap() error { return e.err }
