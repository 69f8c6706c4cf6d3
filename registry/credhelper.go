package registry

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
)

// errNotInstalled ends the text about a helper that cannot be run.
var errNotInstalled = errors.New("is not installed")

// ask runs a credential helper for a host. listed: the file says that the host
// has a login, so a helper that is not installed is an error; else the host was
// never logged in to that anybody knows of, and is asked anonymously.
func (p place) ask(ctx context.Context, helper, host string, listed bool) (Credential, error) {
	name := "docker-credential-" + helper
	if _, err := exec.LookPath(name); err != nil {
		if listed {
			return Credential{}, fmt.Errorf("%s: credential helper %s %w", p.name, name, errNotInstalled)
		}
		return Credential{Source: fmt.Sprintf("credential helper %s, named in %s, %v", name, p.name, errNotInstalled)}, nil
	}
	c, err := p.run(ctx, helper, serverURL(host))
	if err != nil {
		return Credential{}, fmt.Errorf("%s: credential helper %s: %w", p.name, name, err)
	}
	out := Credential{Username: c.Username, Password: c.Password, RefreshToken: c.RefreshToken, AccessToken: c.AccessToken}
	if !out.anonymous() {
		out.Source = fmt.Sprintf("%s (%s)", name, p.name)
	}
	return out, nil
}

// run waits for a helper no longer than its time. A helper whose own children
// keep its pipes open is left behind.
func (p place) run(ctx context.Context, helper, server string) (auth.Credential, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no answer within %s", p.timeout))
	defer cancel()
	type result struct {
		c   auth.Credential
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := credentials.NewNativeStore(helper).Get(ctx, server)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return auth.EmptyCredential, context.Cause(ctx)
		}
		return r.c, oneLine(r.err)
	case <-ctx.Done():
		return auth.EmptyCredential, context.Cause(ctx)
	}
}

// oneLine makes what a helper wrote fit for a message.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(line(err.Error()))
}

// serverURL is what helpers know a host as.
func serverURL(host string) string {
	if host == hubHost {
		return hubKey
	}
	return host
}
