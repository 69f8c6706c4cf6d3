package oci

import (
	"bytes"
	"errors"
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

// MaxNesting bounds how deep objects and arrays nest in a document that is
// read. Manifests and configs nest six deep; what is far deeper is made to hurt
// some reader.
const MaxNesting = 256

// kind is a sort of JSON object whose member names have a meaning here.
type kind struct {
	// names are those members. A member that equals one of them except for
	// letter case is refused: encoding/json, and with it most tools of this
	// field, would take it for the known one and see another image
	// (square/go-jose#73).
	names []string
	// child gives the kind of the object, or of the objects in the array, that
	// a member holds.
	child map[string]*kind
}

var (
	platformKind   = &kind{names: []string{"architecture", "os", "os.version", "os.features", "variant", "features"}}
	descriptorKind = &kind{
		names: []string{"mediaType", "digest", "size", "urls", "annotations", "data", "artifactType", "platform"},
		child: map[string]*kind{"platform": platformKind},
	}
	manifestKind = &kind{
		names: []string{"schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations", "fsLayers", "signatures"},
		child: map[string]*kind{"config": descriptorKind, "subject": descriptorKind, "layers": descriptorKind, "manifests": descriptorKind},
	}
	configKind = &kind{names: []string{"architecture", "os", "os.version", "os.features", "variant"}}
)

// variantOf returns the known name that name differs from only in letter case,
// or "".
func (k *kind) variantOf(name string) string {
	if k == nil {
		return ""
	}
	for _, known := range k.names {
		if name != known && strings.EqualFold(name, known) {
			return known
		}
	}
	return ""
}

func (k *kind) childOf(name string) *kind {
	if k == nil {
		return nil
	}
	return k.child[name]
}

// frame is an object or array that is open.
type frame struct {
	// kind of the object, or of the objects in the array.
	kind   *kind
	object bool
	// member is the kind of the value that comes next in an object.
	member *kind
	// named says that the name of a member was read and its value comes next.
	named bool
}

// checker follows the tokens of one document. It keeps kinds, not pointers: a
// pointer per name would cost the square of the document's size for a document
// that is made for it.
type checker struct {
	dec  *jsontext.Decoder
	root *kind
	open []frame
}

// checkSyntax refuses what json.Unmarshal would silently decide: duplicate
// names (through jsontext), case variants of known names, a byte order mark,
// and anything after the value.
func checkSyntax(b []byte, root *kind) error {
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return &SyntaxError{Reason: "starts with a byte order mark"}
	}
	c := checker{dec: jsontext.NewDecoder(bytes.NewReader(b)), root: root}
	for {
		tok, err := c.dec.ReadToken()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &SyntaxError{Reason: "empty or cut short"}
		}
		if err != nil {
			return syntaxError(err)
		}
		if err := c.token(tok); err != nil {
			return err
		}
		if len(c.open) == 0 {
			return checkRest(b[c.dec.InputOffset():])
		}
	}
}

func checkRest(b []byte) error {
	if len(bytes.TrimSpace(b)) > 0 {
		return &SyntaxError{Reason: "data after the JSON value"}
	}
	return nil
}

func (c *checker) token(tok jsontext.Token) error {
	switch tok.Kind() {
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return c.begin(tok.Kind() == jsontext.KindBeginObject)
	case jsontext.KindEndObject, jsontext.KindEndArray:
		c.open = c.open[:len(c.open)-1]
		c.valueDone()
	case jsontext.KindString:
		if top := c.top(); top != nil && top.object && !top.named {
			return c.name(top, tok.String())
		}
		c.valueDone()
	default:
		c.valueDone()
	}
	return nil
}

func (c *checker) top() *frame {
	if len(c.open) == 0 {
		return nil
	}
	return &c.open[len(c.open)-1]
}

func (c *checker) begin(object bool) error {
	if len(c.open) == MaxNesting {
		return &SyntaxError{Reason: fmt.Sprintf("nests deeper than %d", MaxNesting)}
	}
	k := c.root
	if top := c.top(); top != nil {
		if k = top.kind; top.object {
			k = top.member
		}
	}
	c.open = append(c.open, frame{kind: k, object: object})
	return nil
}

func (c *checker) name(top *frame, name string) error {
	if known := top.kind.variantOf(name); known != "" {
		return &SyntaxError{
			Field:  string(c.dec.StackPointer()),
			Reason: fmt.Sprintf("key %q differs from %q only in letter case", name, known),
		}
	}
	top.member, top.named = top.kind.childOf(name), true
	return nil
}

func (c *checker) valueDone() {
	if top := c.top(); top != nil {
		top.named = false
	}
}

// syntaxError turns an error of the JSON library into ours, which names the
// duplicate key.
func syntaxError(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		if errors.Is(syntactic.Err, jsontext.ErrDuplicateName) {
			return &SyntaxError{Field: string(syntactic.JSONPointer), Reason: fmt.Sprintf("duplicate key %q", syntactic.JSONPointer.LastToken())}
		}
		return &SyntaxError{Field: string(syntactic.JSONPointer), Reason: fmt.Sprintf("not JSON: %v", syntactic.Err)}
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		reason := kindName(semantic.JSONKind) + " is not what belongs here"
		if semantic.Err != nil {
			reason = semantic.Err.Error()
		}
		return &SyntaxError{Field: string(semantic.JSONPointer), Reason: reason}
	}
	return &SyntaxError{Reason: err.Error()}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "this value"
	}
}

// unmarshal reads a whole document of a kind into v after checkSyntax.
func unmarshal(b []byte, k *kind, v any) error {
	if err := checkSyntax(b, k); err != nil {
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
