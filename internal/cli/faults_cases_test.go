package cli_test

import (
	"net/http"
	"time"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

// faultWant is what a tool should make of a fault.
type faultWant string

const (
	// survives: the fault passes, and the publish is whole in the end.
	survives faultWant = "done"
	// stops: the publish cannot be right, so it fails, and the tag is as it was.
	stops faultWant = "stops"
	// either of both.
	safe faultWant = "safe"
)

// faultCase is something that goes wrong while an index is published.
type faultCase struct {
	name string
	want faultWant
	// slow is one in which a tool that is right waits for long.
	slow bool
	// options of the registry that is published to.
	options []registrytest.Option
	// happen brings it about; source is where the content comes from.
	happen func(source, target *registrytest.Registry) []*registrytest.Rule
}

// at puts faults in force at the target.
func at(faults ...registrytest.Fault) func(source, target *registrytest.Registry) []*registrytest.Rule {
	return func(_, target *registrytest.Registry) []*registrytest.Rule { return put(target, faults) }
}

// from puts faults in force at the source.
func from(faults ...registrytest.Fault) func(source, target *registrytest.Registry) []*registrytest.Rule {
	return func(source, _ *registrytest.Registry) []*registrytest.Rule { return put(source, faults) }
}

func put(r *registrytest.Registry, faults []registrytest.Fault) []*registrytest.Rule {
	var rules []*registrytest.Rule
	for _, f := range faults {
		f.Optional = true // not every tool makes the request
		rules = append(rules, r.Fault(f))
	}
	return rules
}

// habit is a quirk of the target, which cannot be missed.
func habit(qs ...registrytest.Quirk) func(source, target *registrytest.Registry) []*registrytest.Rule {
	return func(_, target *registrytest.Registry) []*registrytest.Rule {
		target.Use(qs...)
		return nil
	}
}

const (
	manifestsPath = "/manifests/"
	digestPath    = "/manifests/sha256:"
	commit        = "digest="
	tagPath       = "/manifests/tag$"
	blobPath      = "/blobs/sha256:"
)

// status answers the first n matching requests.
func status(n, code int, method, path string, header http.Header) registrytest.Fault {
	body := map[int]string{
		429: `{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}`,
		403: `{"errors":[{"code":"DENIED","message":"denied"}]}`,
	}[code]
	return registrytest.Fault{Times: n, Status: code, Method: method, Path: path, Header: header, Body: body}
}

func retryAfter(v string) http.Header { return http.Header{"Retry-After": {v}} }

func faultCases() []faultCase {
	var out []faultCase
	nothing := []faultCase{{name: "none", want: survives, happen: habit()}}
	for _, more := range [][]faultCase{nothing, waiting(), breaking(), uploading(), refusing(), lying()} {
		out = append(out, more...)
	}
	return out
}

// waiting are registries that want patience.
func waiting() []faultCase {
	soon := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
	out := []faultCase{
		{name: "429, Retry-After: 1, at PUT manifest", want: survives, happen: at(status(2, 429, "PUT", manifestsPath, retryAfter("1")))},
		{name: "429, Retry-After: a date, at PUT manifest", want: survives, happen: at(status(1, 429, "PUT", manifestsPath, retryAfter(soon)))},
		{name: "429 without Retry-After, at PUT manifest", want: survives, happen: at(status(2, 429, "PUT", manifestsPath, nil))},
		{name: "429, Retry-After: a day, at PUT manifest", want: stops, happen: at(status(registrytest.Always, 429, "PUT", manifestsPath, retryAfter("86400")))},
		{name: "429 at POST upload", want: survives, happen: at(status(2, 429, "POST", "", retryAfter("1")))},
		{name: "429 at blob commit", want: survives, happen: at(registrytest.Fault{Times: 2, Status: 429, Method: "PUT", Query: commit, Header: retryAfter("1")})},
		{name: "429 at GET manifest of the source", want: survives, happen: from(status(2, 429, "GET", manifestsPath, retryAfter("1")))},
		{name: "429 at GET blob of the source", want: survives, happen: from(status(2, 429, "GET", blobPath, retryAfter("1")))},
	}
	for _, code := range []string{"500", "502", "503", "504"} {
		n := int(code[0]-'0')*100 + int(code[2]-'0')
		out = append(out, faultCase{name: code + " at PUT manifest", want: survives, happen: at(status(2, n, "PUT", manifestsPath, nil))})
	}
	return append(out,
		faultCase{name: "503 at PUT tag", want: survives, happen: at(status(1, 503, "PUT", tagPath, nil))},
		faultCase{name: "500 at blob commit", want: survives, happen: at(registrytest.Fault{Status: 500, Method: "PUT", Query: commit})},
		faultCase{name: "503 at POST upload", want: survives, happen: at(status(2, 503, "POST", "", nil))},
		faultCase{name: "502 at GET manifest of the source", want: survives, happen: from(status(2, 502, "GET", manifestsPath, nil))},
		faultCase{name: "500 at PUT tag, for ever", want: stops, happen: at(status(registrytest.Always, 500, "PUT", tagPath, nil))},
		faultCase{name: "what was written is not seen twice", want: survives, happen: habit(registrytest.Lag(2))},
	)
}

// breaking are connections that end.
func breaking() []faultCase {
	return []faultCase{
		{name: "reset before PUT manifest", want: survives, happen: at(registrytest.Fault{Method: "PUT", Path: digestPath, Cut: registrytest.CutBefore})},
		{name: "reset before PUT tag", want: survives, happen: at(registrytest.Fault{Method: "PUT", Path: tagPath, Cut: registrytest.CutBefore})},
		{name: "reset before POST upload", want: survives, happen: at(registrytest.Fault{Method: "POST", Cut: registrytest.CutBefore})},
		{name: "reset in the body of a blob", want: survives, happen: at(registrytest.Fault{Method: "PUT", Query: commit, Cut: registrytest.CutRequest, After: 50000})},
		{name: "reset in the answer to a manifest GET", want: survives, happen: from(registrytest.Fault{Method: "GET", Path: manifestsPath, Cut: registrytest.CutAnswer, After: 20})},
		{name: "answer to a blob commit lost", want: survives, happen: at(registrytest.Fault{Method: "PUT", Query: commit, Cut: registrytest.LoseAnswer})},
		{name: "answer to PUT manifest lost", want: survives, happen: at(registrytest.Fault{Method: "PUT", Path: digestPath, Cut: registrytest.LoseAnswer})},
		{name: "answer to PUT tag lost", want: survives, happen: at(registrytest.Fault{Method: "PUT", Path: tagPath, Cut: registrytest.LoseAnswer})},
		{name: "blob of the source cut short", want: survives, happen: from(registrytest.Fault{Method: "GET", Path: blobPath, Cut: registrytest.CutAnswer, After: 30000})},
		{name: "the same, and Range ignored", want: survives, happen: from(
			registrytest.Fault{Method: "GET", Path: blobPath, Cut: registrytest.CutAnswer, After: 30000},
			registrytest.Fault{Method: "GET", Path: blobPath, Edit: func(r *http.Request) { r.Header.Del("Range") }})},
		{name: "tag PUT never gets through", want: stops, happen: at(registrytest.Fault{Times: registrytest.Always, Method: "PUT", Path: tagPath, Cut: registrytest.CutBefore})},
	}
}

// uploading are sessions and mounts that are odd, and logins that end.
func uploading() []faultCase {
	return []faultCase{
		{name: "upload session lost", want: survives, happen: at(registrytest.Fault{Method: "PUT", Query: commit, Status: 404, Body: `{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}`})},
		{name: "416 at blob commit", want: survives, happen: at(registrytest.Fault{Method: "PUT", Query: commit, Status: 416, Body: `{"errors":[{"code":"RANGE_INVALID"}]}`})},
		{name: "Location without a host", want: survives, happen: habit(registrytest.Rewriting("", "/uploads/", relativeLocation))},
		{name: "upload on another host", want: survives, happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
			other := registrytest.Elsewhere(target.TB(), target)
			target.Use(registrytest.Rewriting("POST", "/uploads/", func(a *registrytest.Answer) {
				a.Header.Set("Location", replaceHost(a.Header.Get("Location"), other.Host))
			}))
			return nil
		}},
		{name: "blobs of the source on another host", want: survives, happen: func(source, _ *registrytest.Registry) []*registrytest.Rule {
			source.Use(registrytest.RedirectTo("http", registrytest.Elsewhere(source.TB(), source).Host, blobPath))
			return nil
		}},
		{name: "POST mount refused with 401", want: survives, happen: at(registrytest.Fault{Method: "POST", Query: "mount=", Times: registrytest.Always, Status: 401})},
		{name: "POST mount refused with 403", want: survives, happen: at(registrytest.Fault{Method: "POST", Query: "mount=", Times: registrytest.Always, Status: 403})},
		{name: "POST mount refused with 405", want: survives, happen: at(registrytest.Fault{Method: "POST", Query: "mount=", Times: registrytest.Always, Status: 405})},
		{name: "PATCH refused with 405", want: survives, happen: habit(registrytest.Hide("PATCH", ""))},
		{name: "token ends before a blob commit", want: survives, options: []registrytest.Option{registrytest.TokenAuth(registrytest.TokenOptions{Username: "u", Password: "p"})},
			happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
				return put(target, []registrytest.Fault{{Method: "PUT", Query: commit, BeforeAuth: true, Edit: func(*http.Request) { target.ExpireTokens() }}})
			}},
		{name: "token ends before PUT tag", want: survives, options: []registrytest.Option{registrytest.TokenAuth(registrytest.TokenOptions{Username: "u", Password: "p"})},
			happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
				return put(target, []registrytest.Fault{{Method: "PUT", Path: tagPath, BeforeAuth: true, Edit: func(*http.Request) { target.ExpireTokens() }}})
			}},
		{name: "two challenges in one header", want: survives, options: []registrytest.Option{registrytest.BasicAuth("u", "p")}, happen: challenges(`Negotiate, Basic realm="registrytest"`)},
		{name: "one line kept of a repeated header", want: survives, happen: habit(registrytest.OneHeaderLine())},
	}
}

// challenges answers the first request without a login with other words.
func challenges(header string) func(source, target *registrytest.Registry) []*registrytest.Rule {
	return func(_, target *registrytest.Registry) []*registrytest.Rule {
		return put(target, []registrytest.Fault{{BeforeAuth: true, Times: registrytest.Always, Rewrite: func(a *registrytest.Answer) {
			if a.Status == http.StatusUnauthorized {
				a.Header.Set("WWW-Authenticate", header)
			}
		}}})
	}
}

// refusing are registries that say no.
func refusing() []faultCase {
	return []faultCase{
		{name: "403 at PUT tag", want: stops, happen: at(status(registrytest.Always, 403, "PUT", tagPath, nil))},
		{name: "403 at PUT of a child", want: stops, happen: at(status(registrytest.Always, 403, "PUT", digestPath, nil))},
		{name: "403 at POST upload", want: stops, happen: at(status(registrytest.Always, 403, "POST", "", nil))},
		{name: "immutable tag", want: stops, happen: habit(registrytest.ImmutableTags())},
		{name: "index refused with 400", want: stops, happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
			target.Use(refuseIndexes)
			return nil
		}},
		{name: "HTML page with 404 for the tag", want: safe, happen: at(registrytest.Fault{Times: registrytest.Always, Method: "HEAD", Path: tagPath, Status: 404, Header: http.Header{"Content-Type": {"text/html"}}})},
		{name: "blobs of the source gone", want: stops, happen: from(registrytest.Fault{Times: registrytest.Always, Method: "GET", Path: blobPath, Status: 404, Body: `{"errors":[{"code":"BLOB_UNKNOWN"}]}`})},
	}
}

// lying are registries, and boxes before them, that give other content than
// they took.
func lying() []faultCase {
	return []faultCase{
		{name: "manifest of the source corrupted", want: stops, happen: from(registrytest.Fault{Times: registrytest.Always, Method: "GET", Path: digestPath, Rewrite: registrytest.CorruptByte(40)})},
		{name: "blob of the source corrupted", want: stops, happen: from(registrytest.Fault{Times: registrytest.Always, Method: "GET", Path: blobPath, Rewrite: registrytest.CorruptByte(5)})},
		{name: "another digest acknowledged at PUT manifest", want: stops, happen: at(registrytest.Fault{Times: registrytest.Always, Method: "PUT", Path: manifestsPath, Rewrite: registrytest.SetHeader("Docker-Content-Digest", "sha256:0000000000000000000000000000000000000000000000000000000000000000")})},
		{name: "no digest header in any answer", want: survives, happen: habit(registrytest.Rewriting("", manifestsPath, registrytest.StripHeader("Docker-Content-Digest", "Etag")))},
		{name: "manifests given gzipped", want: survives, happen: habit(registrytest.Rewriting("GET", manifestsPath, registrytest.Gzip()))},
		{name: "manifests written again by a box in between", want: stops, happen: habit(registrytest.Rewriting("GET", digestPath, registrytest.Reserialize(registrytest.Style{Indent: "   "})))},
		{name: "a child is acknowledged and not kept", want: stops, slow: true, happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
			return put(target, []registrytest.Fault{{Method: "GET", Path: digestPath, Times: registrytest.Always, Status: 404, Body: `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`},
				{Method: "HEAD", Path: digestPath, Times: registrytest.Always, Status: 404}})
		}},
		{name: "children dropped when the tag moves", want: survives, happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
			return put(target, []registrytest.Fault{{Method: "PUT", Path: tagPath, Rewrite: func(a *registrytest.Answer) { dropChild(target) }}})
		}},
		{name: "another writer takes the tag just after", want: stops, happen: func(_, target *registrytest.Registry) []*registrytest.Rule {
			return put(target, []registrytest.Fault{{Method: "PUT", Path: tagPath, Rewrite: func(a *registrytest.Answer) { otherWriter(target) }}})
		}},
	}
}
