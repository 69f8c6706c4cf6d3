package buildkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/docker/buildx/build"
	"github.com/moby/buildkit/frontend/subrequests"
	"github.com/moby/buildkit/frontend/subrequests/lint"
	"github.com/moby/buildkit/frontend/subrequests/outline"
	"github.com/moby/buildkit/frontend/subrequests/targets"
	solverpb "github.com/moby/buildkit/solver/pb"
	"github.com/moby/moby/client/pkg/versions"
	"google.golang.org/protobuf/proto"
)

// printCall shows the answer to --call the way buildx does and returns the exit
// code that the answer asks for.
func printCall(w io.Writer, spec *Spec, res map[string]string, inputs *build.Inputs) (int, error) {
	var err error
	switch format := spec.Call.Format; spec.Call.Name {
	case "outline":
		return 0, printAnswer(w, outline.PrintOutline, outline.SubrequestsOutlineDefinition.Version, format, res)
	case "targets":
		return 0, printAnswer(w, targets.PrintTargets, targets.SubrequestsTargetsDefinition.Version, format, res)
	case "subrequests.describe":
		return 0, printAnswer(w, subrequests.PrintDescribe, subrequests.SubrequestsDescribeDefinition.Version, format, res)
	case "lint":
		err = printLint(w, format, res, inputs)
	default:
		err = printOther(w, spec, res)
	}
	if err != nil || spec.Call.IgnoreStatus {
		return 0, err
	}
	code, err := strconv.Atoi(res["result.statuscode"])
	if err != nil {
		return 0, nil // no status, or none that is a number: as buildx
	}
	return code, nil
}

// printAnswer prints JSON as it came, and falls back to the frontend's own text
// when its answer is newer than the printer.
func printAnswer(w io.Writer, printer func([]byte, io.Writer) error, version, format string, res map[string]string) error {
	if format == "json" {
		_, err := fmt.Fprintln(w, res["result.json"])
		return err
	}
	if res["version"] != "" && versions.LessThan(version, res["version"]) && res["result.txt"] != "" {
		_, err := fmt.Fprint(w, res["result.txt"])
		return err
	}
	return printer([]byte(res["result.json"]), w)
}

func printOther(w io.Writer, spec *Spec, res map[string]string) error {
	var err error
	if text, ok := res["result.json"]; ok && spec.Call.Format == "json" {
		_, err = fmt.Fprintln(w, text)
	} else if text, ok := res["result.txt"]; ok {
		_, err = fmt.Fprint(w, text)
	} else {
		_, err = fmt.Fprintf(w, "%s %+v\n", spec.Call, res)
	}
	return err
}

func printLint(w io.Writer, format string, res map[string]string, inputs *build.Inputs) error {
	var results lint.LintResults
	if text, ok := res["result.json"]; ok {
		if err := json.Unmarshal([]byte(text), &results); err != nil {
			return fmt.Errorf("check result: %w", err)
		}
	}
	if n := len(results.Warnings); format != "json" && n > 0 {
		fmt.Fprintf(w, "Check complete, %s\n", countWarnings(n))
	}
	where := sourceName(inputs)
	printer := func(_ []byte, w io.Writer) error { return results.PrintTo(w, where) }
	if err := printAnswer(w, printer, lint.SubrequestLintDefinition.Version, format, res); err != nil {
		return err
	}
	switch {
	case results.Error != nil:
		if format != "json" && len(results.Warnings) > 0 {
			fmt.Fprintln(w)
		}
		var text strings.Builder
		results.PrintErrorTo(&text, where)
		return errors.New(text.String())
	case len(results.Warnings) == 0 && format != "json":
		_, err := fmt.Fprintln(w, "Check complete, no warnings found.")
		return err
	}
	return nil
}

func countWarnings(n int) string {
	if n == 1 {
		return "1 warning has been found!"
	}
	return fmt.Sprintf("%d warnings have been found!", n)
}

// sourceName names the Dockerfile as the user did, not as it was sent.
func sourceName(inputs *build.Inputs) func(*solverpb.SourceInfo) *solverpb.SourceInfo {
	return func(in *solverpb.SourceInfo) *solverpb.SourceInfo {
		if in == nil || inputs == nil || inputs.DockerfileMappingSrc == "" {
			return in
		}
		out, ok := proto.Clone(in).(*solverpb.SourceInfo)
		if !ok {
			return in
		}
		out.Filename = inputs.DockerfileMappingSrc
		return out
	}
}
