// Package arch holds no code, only tests: the rules that keep the rooms of this
// module apart.
//
//   - A package imports only packages of lower rank (ranks_test.go).
//   - Heavy dependencies have one room each, and stay out of what other
//     programs import (closure_test.go).
//   - Sources keep to the house style as far as a parser can tell
//     (style_test.go).
//
// A failure names the file or the chain of imports that broke the rule. A new
// package needs a line in the table of ranks_test.go.
package arch
