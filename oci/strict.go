package oci

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SyntaxError reports a manifest, index or config that is not read because two
// readers could see two different things in it, or nothing at all.
type SyntaxError struct {
	// Field is a JSON pointer to the place, empty for the whole document.
	Field string
	// Reason says what is wrong there.
	Reason string
}

func (e *SyntaxError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// known lists, for each kind of object in a manifest, the member names with a
// meaning. A member that equals one of them except for letter case is refused:
// encoding/json, and with it most tools of this field, would take it for the
// known one and see another image (square/go-jose#73).
var known = map[string][]string{
	"manifest":   {"schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations", "fsLayers", "signatures"},
	"descriptor": {"mediaType", "digest", "size", "urls", "annotations", "data", "artifactType", "platform"},
	"platform":   {"architecture", "os", "os.version", "os.features", "variant", "features"},
}

// objectKind names the kind of the object at a JSON pointer, "" when its
// members are free (annotations) or not known.
func objectKind(pointer jsontext.Pointer) string {
	p := string(pointer)
	switch {
	case p == "":
		return "manifest"
	case p == "/config", p == "/subject":
		return "descriptor"
	case strings.HasPrefix(p, "/manifests/"), strings.HasPrefix(p, "/layers/"):
		switch rest := p[strings.Index(p[1:], "/")+2:]; {
		case !strings.Contains(rest, "/"):
			return "descriptor"
		case strings.HasSuffix(rest, "/platform") && strings.Count(rest, "/") == 1:
			return "platform"
		}
	case p == "/config/platform", p == "/subject/platform":
		return "platform"
	}
	return ""
}

// checkSyntax refuses what json.Unmarshal would silently decide: duplicate
// names (through jsontext), case variants of known names, a byte order mark,
// and anything after the value.
func checkSyntax(b []byte) error {
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return &SyntaxError{Reason: "starts with a byte order mark"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return checkDepthZero(dec)
		}
		if err != nil {
			return syntaxError(err)
		}
		if err := checkName(dec, tok); err != nil {
			return err
		}
		if dec.StackDepth() == 0 {
			if rest := bytes.TrimSpace(b[dec.InputOffset():]); len(rest) > 0 {
				return &SyntaxError{Reason: "data after the JSON value"}
			}
			return nil
		}
	}
}

func checkDepthZero(dec *jsontext.Decoder) error {
	if dec.InputOffset() == 0 || dec.StackDepth() != 0 {
		return &SyntaxError{Reason: "empty or cut short"}
	}
	return nil
}

// checkName looks at tok if it is the name of an object member.
func checkName(dec *jsontext.Decoder, tok jsontext.Token) error {
	kind, length := dec.StackIndex(dec.StackDepth())
	if kind != jsontext.KindBeginObject || length%2 == 0 || tok.Kind() != jsontext.KindString {
		return nil
	}
	pointer := dec.StackPointer()
	name := tok.String()
	for _, k := range known[objectKind(pointer.Parent())] {
		if name != k && strings.EqualFold(name, k) {
			return &SyntaxError{Field: string(pointer), Reason: fmt.Sprintf("key %q differs from %q only in letter case", name, k)}
		}
	}
	return nil
}

// syntaxError turns an error of the JSON library into ours, which names the
// duplicate key.
func syntaxError(err error) error {
	var syntactic *jsontext.SyntacticError
	if as(err, &syntactic) {
		if syntactic.Err == jsontext.ErrDuplicateName {
			return &SyntaxError{Field: string(syntactic.JSONPointer), Reason: fmt.Sprintf("duplicate key %q", syntactic.JSONPointer.LastToken())}
		}
		return &SyntaxError{Field: string(syntactic.JSONPointer), Reason: fmt.Sprintf("not JSON: %v", syntactic.Err)}
	}
	var semantic *json.SemanticError
	if as(err, &semantic) {
		reason := fmt.Sprintf("JSON %s where %s is expected", semantic.JSONKind, semantic.GoType)
		if semantic.Err != nil {
			reason = semantic.Err.Error()
		}
		return &SyntaxError{Field: string(semantic.JSONPointer), Reason: reason}
	}
	return &SyntaxError{Reason: err.Error()}
}

// unmarshal reads a whole document into v after checkSyntax.
func unmarshal(b []byte, v any) error {
	if err := checkSyntax(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return syntaxError(err)
	}
	return nil
}

// unmarshalValue reads a part of a document that checkSyntax has passed.
func unmarshalValue(b jsontext.Value, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return syntaxError(err)
	}
	return nil
}
