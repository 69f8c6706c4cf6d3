// Package buildkit is the only room that knows docker/buildx and moby/buildkit.
//
// It takes buildx's own flags, reads them the way buildx does, runs builds on
// the nodes a user has, shows BuildKit's progress for the whole walk, and
// starts a local buildkitd when there is no other node. What buildx already
// decides (flags, defaults, parsing of outputs, secrets, ssh, attestations,
// cache, policies) is asked of buildx's packages and not decided again.
//
// What it refuses, before any node is asked: a platform or tag that does not
// parse, a local context or Dockerfile that cannot be read, --push without a
// name, two pushing outputs that differ, an image id file together with local
// or tar outputs. Each is a [*UsageError].
//
// Two ways lead out of it. A build that pushes becomes a [Spec], which the node
// side of this package runs platform by platform and the rooms outside publish.
// A build that pushes nothing is buildx's alone: [Command.Run] or, on nodes
// named by the user, [Plain].
//
// Read flags.go first, then spec.go, plain.go, progress.go, metadata.go and
// local.go.
package buildkit
