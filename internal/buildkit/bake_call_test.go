package buildkit

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/docker/buildx/bake"
	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/util/buildflags"
	"github.com/moby/buildkit/client"
)

// The exit code is that of the first target, by name, that asks for one, in text
// and in JSON.
func TestExitCodeOfSeveralAnswersIsThatOfTheFirst(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		a := &Answers{
			calls:     calls{def: definition{targets: map[string]*bake.Target{}}, by: map[string]*buildflags.CallFunc{}, asJSON: asJSON},
			asked:     map[string]buildx.Options{},
			responses: map[string]*client.SolveResponse{},
		}
		for i := range 16 { // in a map, the first is the first by chance once in sixteen times
			name := fmt.Sprintf("t%02d", i)
			a.def.targets[name] = &bake.Target{}
			a.by[name] = &buildflags.CallFunc{Name: "other"}
			a.responses[name] = &client.SolveResponse{ExporterResponse: map[string]string{"result.txt": "x", "result.statuscode": fmt.Sprint(3 + i)}}
		}
		var ended *ExitError
		if err := a.Print(io.Discard); !errors.As(err, &ended) || ended.Code != 3 {
			t.Errorf("JSON %v: %v", asJSON, err)
		}
	}
}
