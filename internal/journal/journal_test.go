package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir, head string) (*Journal, *Record) {
	t.Helper()
	j, earlier, err := Open(dir, "a", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	return j, earlier
}

func TestUnfinishedRecordIsTakenUp(t *testing.T) {
	dir := t.TempDir()
	j, earlier := open(t, dir, `{"n":1}`)
	if earlier != nil {
		t.Fatalf("a new record has an earlier one: %+v", earlier)
	}
	j.Begin("tag")
	j.Done("blob")
	if err := errors.Join(j.Err(), j.Close()); err != nil {
		t.Fatal(err)
	}
	j, earlier = open(t, dir, `{"n":2}`)
	defer j.Close()
	if earlier == nil {
		t.Fatal("not found again")
	}
	if d := cmp.Diff([]string{`{"n":1}`, "tag", "blob"}, []string{string(earlier.Head), earlier.Begun[0], earlier.Done[0]}); d != "" {
		t.Error(d)
	}
}

func TestFinishedRecordLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, `{}`)
	j.Done("x")
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestTornLineIsNotRead(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, `{"n":1}`)
	j.Done("whole")
	_ = j.Close()
	path := filepath.Join(dir, "a.journal")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{`{"done":"ha`, `{"begin":"half"}`} {
		if err := os.WriteFile(path, append(b[:len(b):len(b)], torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read(path)
		if err != nil || len(r.Done) != 1 || len(r.Begun) != 0 {
			t.Errorf("%q: %+v, %v", torn, r, err)
		}
	}
}

// TestTornHeadIsNoRecord: the process was killed before it had begun.
func TestTornHeadIsNoRecord(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.journal"), []byte(`{"version":1,"head":{"n":`), 0o600); err != nil {
		t.Fatal(err)
	}
	j, earlier := open(t, dir, `{"n":2}`)
	if earlier != nil {
		t.Errorf("taken up: %+v", earlier)
	}
	_ = j.Close()
	if r, err := Read(filepath.Join(dir, "a.journal")); err != nil || string(r.Head) != `{"n":2}` {
		t.Errorf("%s, %v", r.Head, err)
	}
}

func TestOneWriterPerRecord(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, `{}`)
	defer j.Close()
	var busy *BusyError
	if _, _, err := Open(dir, "a", []byte(`{}`)); !errors.As(err, &busy) {
		t.Errorf("err %v", err)
	}
	if all, faults, err := List(dir); err != nil || len(all) != 0 || len(faults) != 0 {
		t.Errorf("a record that is being written is listed: %v, %v, %v", all, faults, err)
	}
	if err := Prune(dir, 0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(j.path); err != nil {
		t.Errorf("a record that is being written was removed: %v", err)
	}
}

func TestOldRecordsGoByThemselves(t *testing.T) {
	dir := t.TempDir()
	j, _ := open(t, dir, `{}`)
	_ = j.Close()
	if err := Prune(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, _, _ := List(dir); len(all) != 1 {
		t.Fatalf("%d records", len(all))
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(j.path, long, long); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir, time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, _, _ := List(dir); len(all) != 0 {
		t.Errorf("%d records", len(all))
	}
}

func TestNoDirectoryNoRecords(t *testing.T) {
	if all, faults, err := List(filepath.Join(t.TempDir(), "none")); err != nil || all != nil || faults != nil {
		t.Errorf("%v, %v, %v", all, faults, err)
	}
}

// TestFilesThatCannotBeReadAreFaults: nobody may take them for nothing.
func TestFilesThatCannotBeReadAreFaults(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"z", "y"} { // the oldest first, whatever it is called
		text := fmt.Sprintf(`{"version":1,"started":"2020-01-0%dT00:00:00Z","head":{}}`+"\n", i+1)
		if err := os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := `{"version":1,"head":{"n":1}}` + "\n"
	for name, text := range map[string]string{
		"a": whole[:len(whole)/2], "b": whole[:len(whole)-1], "c": whole + "garbage\n", "d": "\x00\x00\x00\n",
		"e": `{"version":2,"head":{"n":1}}` + "\n", "f": `{"done":"x"}` + "\n", "g": "\n", "empty": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, faults, err := List(dir)
	if err != nil || len(all) != 2 || filepath.Base(all[0].Path) != "z"+suffix {
		t.Errorf("%+v, %v", all, err)
	}
	var named []string
	for _, f := range faults {
		named = append(named, strings.TrimSuffix(filepath.Base(f.Path), suffix))
		if !strings.Contains(f.Err.Error(), f.Path) {
			t.Errorf("%v: does not name %s", f.Err, f.Path)
		}
	}
	if d := cmp.Diff([]string{"a", "b", "c", "d", "e", "f", "g"}, named); d != "" {
		t.Error(d)
	}
}
