package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// The operations that an [*Error] speaks of.
const (
	opResolve        = "resolve"
	opReadManifest   = "read manifest"
	opWriteManifest  = "write manifest"
	opWriteTag       = "write tag"
	opDeleteManifest = "delete manifest"
	opDeleteTag      = "delete tag"
	opReadBlob       = "read blob"
	opStatBlob       = "look for blob"
	opCopyBlob       = "write blob"
	opListTags       = "list tags"
	opListReferrers  = "list referrers"
)

// Error is a request to a registry that did not give what it should.
type Error struct {
	// Op says what was being done: "read manifest".
	Op string
	// Reference is the tag, manifest, blob or repository it was done to.
	Reference string
	// Status is that of the answer, 0 when there was none.
	Status int
	// Codes are the errors in the answer, as the registry gave them. An answer
	// to HEAD has no body: for a 404 that comes from a registry the code is
	// filled in.
	Codes []Code
	// Summary is one line about an answer that is not a registry's: the title
	// of an HTML page.
	Summary string
	// Login says how the host was asked, when it refused: "anonymously", "with
	// the login from /home/me/.docker/config.json".
	Login string
	// Cause is what went wrong on this side: a broken connection, content that
	// is not what was asked for.
	Cause error
}

// Code is one error of a registry's answer (distribution-spec, "Error Codes").
type Code struct {
	// Code is the identifier: "MANIFEST_UNKNOWN".
	Code string
	// Message is for people.
	Message string
	// Detail is JSON, cut when it is long.
	Detail string
}

func (e *Error) Error() string {
	parts := []string{e.Reference, e.Op}
	if e.Status >= http.StatusBadRequest {
		parts = append(parts, e.answer())
	}
	if e.Cause != nil {
		parts = append(parts, e.Cause.Error())
	}
	if e.Cause == nil && e.Status < http.StatusBadRequest {
		parts = append(parts, fmt.Sprintf("unexpected answer %d", e.Status))
	}
	s := strings.Join(parts, ": ")
	if e.Login != "" {
		s += " (asked " + e.Login + ")"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Host is the registry that was asked, as references spell it.
func (e *Error) Host() string {
	host, _, _ := strings.Cut(e.Reference, "/")
	return host
}

func (e *Error) answer() string {
	if len(e.Codes) > 0 {
		parts := make([]string, len(e.Codes))
		for i, c := range e.Codes {
			parts[i] = c.String()
		}
		return fmt.Sprintf("%d %s", e.Status, strings.Join(parts, "; "))
	}
	s := strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	if e.Summary != "" {
		s += ": " + e.Summary
	}
	return s
}

// detailed are the codes whose detail says which part is at fault. That of
// others repeats the request.
var detailed = []string{"MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID", "DIGEST_INVALID", "SIZE_INVALID"}

func (c Code) String() string {
	s := c.Code
	if c.Message != "" {
		s = strings.TrimPrefix(s+": "+c.Message, ": ")
	}
	if c.Detail != "" && slices.Contains(detailed, c.Code) {
		s += " " + c.Detail
	}
	return s
}

// CredentialError reports that a login could not be looked up: a helper that is
// missing or failed, a config file that cannot be read.
type CredentialError struct {
	// Host as references spell it.
	Host  string
	Cause error
}

func (e *CredentialError) Error() string { return "login for " + e.Host + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *CredentialError) Unwrap() error { return e.Cause }

// Has reports whether the registry gave one of these codes.
func (e *Error) Has(codes ...string) bool {
	return slices.ContainsFunc(e.Codes, func(c Code) bool { return slices.Contains(codes, c.Code) })
}

// Absent reports whether err says that a tag, manifest, blob or repository is
// not there: 404 with a code that means so. A 404 page of a proxy does not, and
// nothing else does either: it could not be asked.
func Absent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound &&
		e.Has("MANIFEST_UNKNOWN", "NAME_UNKNOWN", "BLOB_UNKNOWN", "NOT_FOUND")
}

// Denied reports whether the registry refused the login, or what it may do.
func Denied(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// LoginRefused reports whether a login was given and not accepted: without one,
// the same may be allowed to anybody.
func LoginRefused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusUnauthorized && strings.HasPrefix(e.Login, "with ")
}

// HelperMissing reports whether a login is wanted that only a credential helper
// knows which is not installed.
func HelperMissing(err error) bool {
	var c *CredentialError
	if errors.As(err, &c) {
		return errors.Is(err, errNotInstalled)
	}
	var e *Error
	return Denied(err) && errors.As(err, &e) && strings.HasSuffix(e.Login, errNotInstalled.Error())
}

// SourceLacks reports whether a blob was not written since the place that it was
// to be read from does not have it.
func SourceLacks(err error) bool {
	var e, source *Error
	return errors.As(err, &e) && e.Op == opCopyBlob && errors.As(e.Cause, &source) && source.Op == opReadBlob && Absent(source)
}

// Immutable reports whether a registry refused to move or delete a tag because
// of a rule about tags: TAG_INVALID (Amazon ECR), DENIED (zot, Docker Hub), 409
// (Quay), 412 (Harbor). 403 DENIED is also what a missing permission looks like.
func Immutable(err error) bool {
	var e *Error
	if !errors.As(err, &e) || (e.Op != opWriteTag && e.Op != opDeleteTag) {
		return false
	}
	switch e.Status {
	case http.StatusConflict, http.StatusPreconditionFailed:
		return true
	case http.StatusForbidden:
		return e.Has("DENIED")
	}
	return e.Status == http.StatusBadRequest && e.Has("TAG_INVALID")
}

// Unsupported reports whether a registry does not have the operation at all, as
// deleting: 405, or UNSUPPORTED, or what Distribution 2 says when a tag is to be
// deleted (DIGEST_INVALID).
func Unsupported(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented || e.Has("UNSUPPORTED") ||
		(e.Op == opDeleteTag && e.Has("DIGEST_INVALID"))
}

// TagsStay reports whether a registry refused to delete a tag because it cannot
// delete one alone, or deletes nothing.
func TagsStay(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Op == opDeleteTag && Unsupported(err)
}

// ChildUnknown reports whether a registry refused a manifest because it does
// not see something that the manifest points at.
func ChildUnknown(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status >= http.StatusBadRequest && e.Op != opReadManifest &&
		e.Has("MANIFEST_BLOB_UNKNOWN", "BLOB_UNKNOWN")
}

// Passing reports whether the same request may succeed later: the connection
// broke off, or the host is overloaded or failed.
func Passing(err error) bool {
	var e *Error
	return unknownOutcome(err) || errors.As(err, &e) && e.Status == http.StatusTooManyRequests
}

// Silent reports whether err is that of a host which has said nothing for the idle
// time. That is a long wait: what may be repeated is repeated once.
func Silent(err error) bool {
	var idle *IdleError
	return errors.As(err, &idle)
}

// unknownOutcome reports whether nobody knows if a request was carried out.
func unknownOutcome(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	if e.Status != 0 {
		return httpchain.Transient(e.Status)
	}
	return httpchain.Broken(e.Cause)
}

// failed is an error of this side.
func (r *Repository) failed(c call, cause error) *Error {
	e := &Error{Op: c.op, Reference: c.object, Cause: clean(cause)}
	var refused *errcode.ErrorResponse // of the token server
	switch {
	case errors.As(cause, &refused):
		e.Status, e.Codes, e.Cause = refused.StatusCode, nil, &tokenError{host: refused.URL.Host, codes: codesOf(refused.Errors)}
	case errors.Is(cause, auth.ErrBasicCredentialNotFound):
		e.Status, e.Cause = http.StatusUnauthorized, errors.New("the registry wants a login")
	default:
		return e
	}
	e.Login = r.client.auth.login(r.host.name)
	return e
}

// tokenError says that it was the token server that refused.
type tokenError struct {
	host  string
	codes []Code
}

func (e *tokenError) Error() string {
	s := "no token from " + e.host
	for _, c := range e.codes {
		s += ": " + c.String()
	}
	return s
}

func codesOf(errs errcode.Errors) []Code {
	out := make([]Code, len(errs))
	for i, e := range errs {
		out[i] = Code{Code: line(e.Code), Message: line(e.Message)}
	}
	return out
}

// clean takes URLs out of an error: those of uploads and of redirects carry
// secrets.
func clean(err error) error {
	var c *CredentialError
	if errors.As(err, &c) {
		return c
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if err == io.EOF {
		return fmt.Errorf("the connection was closed before an answer came: %w", err)
	}
	for startsWithURL(err.Error()) && errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// startsWithURL recognises how the login client begins its errors.
func startsWithURL(s string) bool {
	_, rest, ok := strings.Cut(s, " ")
	return ok && (strings.HasPrefix(rest, `"http://`) || strings.HasPrefix(rest, `"https://`))
}
