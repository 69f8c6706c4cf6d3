// Package registrytest is the test kit: real registries, a proxy in front of
// each that logs every request and brings about faults, and images whose every
// byte is known. Only _test files import it.
//
// A registry is one of
//
//   - [Distribution]: CNCF Distribution v3, in this process, over a directory,
//   - [Docker28]: Debian's docker-registry 2.8.2, a process of its own,
//   - [WithReferrers]: go-containerregistry's, in memory, with the referrers API,
//
// and [Each] runs a test over all of them. A client under test speaks to
// Registry.Host, where a request passes, in this order:
//
//	log -> faults marked BeforeAuth -> auth -> faults -> quirks -> registry
//
// Faults happen a number of times and fail the test when they did not happen;
// quirks ([Registry.Use]) hold for the registry's whole life. The kit's own
// reading and writing ([Registry.Push], [Registry.Manifests], [Registry.Tags])
// goes round the proxy: it is neither logged nor disturbed nor asked for
// credentials, and it uses net/http only, nothing of the code under test.
//
// Nothing here waits for a clock: tokens expire by use or on command
// ([TokenOptions]), and a delay lasts until the test ends it (Fault.Hold).
//
// Read registry.go first, then fault.go, quirk.go and content.go.
package registrytest
