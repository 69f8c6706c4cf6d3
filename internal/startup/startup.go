// Package startup makes the start of the program cheaper.
//
// The packages of the build engine make about seven megabytes of tables before
// main runs, above the size at which the garbage collector first sets to work,
// though nothing of it is garbage. Without the collector every command starts a
// fifth sooner (make bench measures it).
//
// It works because this package needs nothing but the runtime and is therefore
// among the first ones to be initialised (Go specification, "Package
// initialization"): packages are taken in the order of their import paths as
// soon as those that they import are done. Call [Done] first thing in main.
package startup

import "runtime/debug"

// percent is the collector's setting (GOGC) before it was put off.
var percent = debug.SetGCPercent(-1)

// Done puts the garbage collector back to its setting.
func Done() { debug.SetGCPercent(percent) }
