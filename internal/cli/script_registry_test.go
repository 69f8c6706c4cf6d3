package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/opencontainers/go-digest"
)

var _ = scriptCommands(map[string]scriptCommand{
	"registry": startRegistry,
	"login":    login,
	"stored":   stored,
	"tags":     tags,
	"holds":    holds,
	"digest":   digestOf,
	"requests": requests,
	"forget":   forget,
	"fault":    fault,
	"quirk":    quirk,
	"remove":   remove,
})

// registry NAME [distribution|docker28|referrers] [basic|token|public|tls]: starts a
// registry and sets $NAME to its host:port, $NAME_USER and $NAME_PASSWORD to its
// login. With tls, $NAME_CA is a file with its certificate.
func startRegistry(k *kit, args []string) {
	if len(args) == 0 {
		k.fail("usage: registry name [kind] [auth]")
	}
	start := registrytest.Distribution
	var opts []registrytest.Option
	tls := false
	for _, a := range args[1:] {
		switch a {
		case "distribution":
		case "docker28":
			start = registrytest.Docker28
		case "referrers":
			start = registrytest.WithReferrers
		case "basic":
			opts = append(opts, registrytest.BasicAuth("user", "pass word"))
		case "public": // to who sends no login
			opts = append(opts, registrytest.TokenAuth(registrytest.TokenOptions{Username: "user", Password: "pass word", AnonymousPull: true}))
		case "token":
			opts = append(opts, registrytest.TokenAuth(registrytest.TokenOptions{Username: "user", Password: "pass word"}))
		case "tls":
			tls = true
			opts = append(opts, registrytest.TLS())
		default:
			k.fail("registry: unknown %q", a)
		}
	}
	name := args[0]
	r := start(k, opts...)
	k.registries[name] = r
	k.ts.Setenv(name, r.Host)
	k.ts.Setenv(name+"_USER", r.Username)
	k.ts.Setenv(name+"_PASSWORD", r.Password)
	if tls {
		file := k.ts.MkAbs(name + "-ca.pem")
		k.ts.Check(os.WriteFile(file, r.CA(), 0o644))
		k.ts.Setenv(name+"_CA", file)
	}
}

// registry finds a registry by its name in the script.
func (k *kit) registry(name string) *registrytest.Registry {
	r := k.registries[name]
	if r == nil {
		k.fail("no registry %q: start it with \"registry %s\"", name, name)
	}
	return r
}

// login NAME...: writes Docker's config with the logins of registries.
func login(k *kit, args []string) {
	var rs []*registrytest.Registry
	for _, a := range args {
		rs = append(rs, k.registry(a))
	}
	file := filepath.Join(k.ts.Getenv("DOCKER_CONFIG"), "config.json")
	k.ts.Check(os.WriteFile(file, []byte(registrytest.DockerConfig(rs...)), 0o600))
}

// stored NAME REPOSITORY: prints what a repository holds, tagged or not, as
// "index 1 manifest 2"; nothing for an empty one.
func stored(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: stored registry repository")
	}
	fmt.Fprintln(k.ts.Stdout(), k.registry(args[0]).Summary(args[1]))
}

// tags NAME REPOSITORY: prints a line "TAG DIGEST" per tag.
func tags(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: tags registry repository")
	}
	var lines []string
	for tag, d := range k.registry(args[0]).Tags(args[1]) {
		lines = append(lines, fmt.Sprintf("%s %s\n", tag, d))
	}
	slices.Sort(lines)
	fmt.Fprint(k.ts.Stdout(), strings.Join(lines, ""))
}

// holds NAME REPOSITORY DIGEST...: fails unless the repository has every
// manifest or blob, by its digest.
func holds(k *kit, args []string) {
	if len(args) < 3 {
		k.fail("usage: holds registry repository digest...")
	}
	r := k.registry(args[0])
	for _, d := range args[2:] {
		if _, ok := r.Manifest(args[1], d); !ok && !r.HasBlob(args[1], digest.Digest(d)) {
			k.fail("%s does not hold %s", args[1], d)
		}
	}
}

// digest VAR NAME REPOSITORY:TAG: sets $VAR to what a tag names.
func digestOf(k *kit, args []string) {
	if len(args) != 3 {
		k.fail("usage: digest var registry repository:tag")
	}
	repo, tag := repoTag(args[2])
	b, ok := k.registry(args[1]).Manifest(repo, tag)
	if !ok {
		k.fail("%s: no such tag", args[2])
	}
	k.ts.Setenv(args[0], b.Digest.String())
}

// requests NAME [METHOD [PATH-REGEXP]]: prints the requests so far, a line
// "METHOD PATH?QUERY STATUS" each. "requests -count ..." prints their number,
// "requests -max N ..." fails when there are more than N. METHOD - is any,
// "write" is PUT, POST, PATCH and DELETE.
func requests(k *kit, args []string) {
	count, most := false, -1
	switch {
	case len(args) > 0 && args[0] == "-count":
		count, args = true, args[1:]
	case len(args) > 1 && args[0] == "-max":
		most, args = k.number(args[1]), args[2:]
	}
	if len(args) == 0 || len(args) > 3 {
		k.fail("usage: requests [-count | -max n] registry [method [path]]")
	}
	found := k.find(k.registry(args[0]), args[1:])
	switch {
	case count:
		fmt.Fprintln(k.ts.Stdout(), len(found))
	default:
		fmt.Fprint(k.ts.Stdout(), strings.Join(found, ""))
	}
	if most >= 0 && len(found) > most {
		k.fail("%d requests, more than %d", len(found), most)
	}
}

func (k *kit) find(r *registrytest.Registry, args []string) []string {
	args = append(args, "", "")[:2]
	write := args[0] == "write"
	f := registrytest.Filter{Method: args[0], Path: args[1]}
	if write || args[0] == "-" {
		f.Method = ""
	}
	var lines []string
	for _, q := range r.Find(f) {
		if write && (q.Method == http.MethodGet || q.Method == http.MethodHead) {
			continue
		}
		path := q.Path
		if q.Query != "" {
			path += "?" + q.Query
		}
		lines = append(lines, fmt.Sprintf("%s %s %d\n", q.Method, path, q.Status))
	}
	return lines
}

// forget NAME: the log of requests starts anew.
func forget(k *kit, args []string) {
	for _, a := range args {
		k.registry(a).Reset()
	}
}

// fault NAME METHOD PATH-REGEXP OPTION...: something goes wrong with the next
// request that matches (METHOD - is any). A script fails when a fault did not
// happen. Options: status=N, body=TEXT, header=NAME:VALUE, times=N|always,
// skip=N, optional, early (before credentials are checked), query=REGEXP,
// cut=before|request|answer|lost, after=N, stall (nothing moves any more, where
// cut would end the connection), gzip, two-spaces (the body written
// again), corrupt=OFFSET, truncate=N, strip=HEADER.
func fault(k *kit, args []string) {
	if len(args) < 4 {
		k.fail("usage: fault registry method path option...")
	}
	f := registrytest.Fault{Method: strings.TrimPrefix(args[1], "-"), Path: args[2], Header: http.Header{}}
	for _, a := range args[3:] {
		k.faultOption(&f, a)
	}
	k.registry(args[0]).Fault(f)
}

func (k *kit) faultOption(f *registrytest.Fault, s string) {
	key, value := option(s)
	switch key {
	case "status":
		f.Status = k.number(value)
	case "body":
		f.Body = value
	case "header":
		name, text, _ := strings.Cut(value, ":")
		f.Header.Set(name, text)
	case "times":
		if f.Times = registrytest.Always; value != "always" {
			f.Times = k.number(value)
		}
	case "skip":
		f.Skip = k.number(value)
	case "optional":
		f.Optional = true
	case "early":
		f.BeforeAuth = true
	case "query":
		f.Query = value
	case "after":
		f.After = int64(k.number(value))
	case "stall":
		f.Stall = true
	case "cut":
		f.Cut = k.cut(value)
	default:
		f.Rewrite = k.rewrite(key, value)
	}
}

func (k *kit) cut(s string) registrytest.Cut {
	cuts := map[string]registrytest.Cut{
		"before": registrytest.CutBefore, "request": registrytest.CutRequest,
		"answer": registrytest.CutAnswer, "lost": registrytest.LoseAnswer,
	}
	if cuts[s] == 0 {
		k.fail("cut=%s: want before, request, answer or lost", s)
	}
	return cuts[s]
}

func (k *kit) rewrite(key, value string) registrytest.Rewrite {
	switch key {
	case "gzip":
		return registrytest.Gzip()
	case "two-spaces":
		return registrytest.Reserialize(registrytest.Style{Indent: "  "})
	case "corrupt":
		return registrytest.CorruptByte(k.number(value))
	case "truncate":
		return registrytest.Truncate(k.number(value))
	case "strip":
		return registrytest.StripHeader(value)
	case "set":
		name, text, _ := strings.Cut(value, ":")
		return registrytest.SetHeader(name, text)
	}
	k.fail("unknown option %q", key)
	return nil
}

// quirk NAME immutable | one-header-line | lag=N | hide METHOD PATH |
// rewrite METHOD PATH REWRITE: a habit of the registry from now on. REWRITE is
// as for fault.
func quirk(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: quirk registry habit...")
	}
	r := k.registry(args[0])
	key, value := option(args[1])
	rest := append(args[2:], "", "", "")
	method := strings.TrimPrefix(rest[0], "-")
	switch key {
	case "immutable":
		r.Use(registrytest.ImmutableTags())
	case "one-header-line":
		r.Use(registrytest.OneHeaderLine())
	case "lag":
		r.Use(registrytest.Lag(k.number(value)))
	case "hide":
		r.Use(registrytest.Hide(method, rest[1]))
	case "rewrite":
		r.Use(registrytest.Rewriting(method, rest[1], k.rewrite(option(rest[2]))))
	default:
		k.fail("quirk: unknown %q", key)
	}
}

// remove NAME REPOSITORY DIGEST...: removes manifests and blobs behind the
// client's back.
func remove(k *kit, args []string) {
	if len(args) < 3 {
		k.fail("usage: remove registry repository digest...")
	}
	r := k.registry(args[0])
	for _, d := range args[2:] {
		if _, ok := r.Manifest(args[1], d); ok {
			r.RemoveManifest(args[1], digest.Digest(d))
		} else {
			r.RemoveBlob(args[1], digest.Digest(d))
		}
	}
}

// repoTag splits REPOSITORY[:TAG].
func repoTag(s string) (repo, tag string) {
	repo, tag, _ = strings.Cut(s, ":")
	return repo, tag
}
