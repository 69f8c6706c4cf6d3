package render

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
)

// ParseTemplate reads a Go template with the function json. An empty text is
// valid.
func ParseTemplate(text string) (*template.Template, error) {
	return template.New("format").Option("missingkey=error").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			var b strings.Builder
			err := JSON(&b, v)
			return strings.TrimSuffix(b.String(), "\n"), err
		},
	}).Parse(text)
}

// FieldError reports a template that asks for what a document does not have.
type FieldError struct {
	// Text says where, in the words of the template.
	Text string
	// Have are the names at the top of the document.
	Have []string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s; the document has %s", e.Text, strings.Join(e.Have, ", "))
}

// Execute returns what a template makes of a document, by the names of its JSON
// or, as the templates of Go programs do, of its Go fields. The error is a
// [*FieldError] when neither has a field.
func Execute(t *template.Template, doc any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, doc); err == nil {
		return b.String(), nil
	}
	b.Reset()
	named, _ := byName(reflect.ValueOf(doc)).(map[string]any)
	err := t.Execute(&b, named)
	var failed template.ExecError
	if errors.As(err, &failed) {
		return "", &FieldError{Text: where(failed), Have: slices.Sorted(maps.Keys(named))}
	}
	return b.String(), err
}

// where leaves out what the package says of itself.
func where(e template.ExecError) string {
	if _, text, ok := strings.Cut(e.Error(), " at "); ok {
		return text
	}
	return e.Error()
}

// byName is a value with the names of its JSON for keys. Unlike in the JSON, what
// is empty is there, so that a template can ask.
func byName(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Struct:
		out := map[string]any{}
		addFields(out, v)
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = byName(v.Index(i))
		}
		return out
	case reflect.String: // a digest is text
		return v.String()
	}
	return v.Interface()
}

func addFields(out map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			addFields(out, v.Field(i))
		case f.IsExported() && name != "":
			out[name] = byName(v.Field(i))
		}
	}
}
