package fs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/fs"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sprite is a workspace in which the skills of the family are called through the real runtime.
type sprite struct {
	t   testing.TB
	dir string
}

func newSprite(t testing.TB, files ...string) *sprite {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &sprite{t, dir}
	for i := 0; i+1 < len(files); i += 2 {
		s.write(files[i], files[i+1])
	}
	return s
}

// call runs a skill on an input, a JSON text or what makes one, and returns the exit code and the result.
func (s *sprite) call(name string, input any) (int, protocol.Result) {
	s.t.Helper()
	return s.callCtx(s.t.Context(), name, input)
}

func (s *sprite) callCtx(ctx context.Context, name string, input any) (int, protocol.Result) {
	s.t.Helper()
	text, ok := input.(string)
	if !ok {
		text = quote(input)
	}
	all := fs.Skills()
	i := slices.IndexFunc(all, func(k skill.Skill) bool { return k.Name == name })
	m, ok := manifests.Lookup(name)
	if i < 0 || !ok {
		s.t.Fatalf("no skill %s", name)
	}
	var out bytes.Buffer
	env := skill.ParseEnv([]string{"LATTICE_WORKSPACE=" + s.dir})
	env.Socket = ""
	exit := skill.Serve(ctx, all[i], m, env, skill.IO{Stdin: strings.NewReader(text), Stdout: &out, Stderr: s.t.Output()})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var result protocol.Result
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil {
		s.t.Fatalf("%s: the last line is no result: %v\n%s", name, err, out.String())
	}
	return exit, result
}

// must is call that has to succeed, with the data decoded.
func (s *sprite) must(name string, input any) map[string]any {
	s.t.Helper()
	exit, result := s.call(name, input)
	if exit != 0 || !result.OK {
		s.t.Fatalf("%s %v = exit %d, %s", name, input, exit, quote(result))
	}
	var data map[string]any
	if err := json.Unmarshal(result.Data, &data); err != nil {
		s.t.Fatal(err)
	}
	if data["spilled"] != nil || data["path"] != nil && data["sha256"] != nil && strings.HasPrefix(data["path"].(string), ".lattice/") {
		data = nil
		if err := json.Unmarshal([]byte(s.read(spillPath(s.t, result.Data))), &data); err != nil {
			s.t.Fatal(err)
		}
	}
	return data
}

func spillPath(t testing.TB, raw json.RawMessage) string {
	var at struct{ Path string }
	if err := json.Unmarshal(raw, &at); err != nil {
		t.Fatal(err)
	}
	return at.Path
}

// fails is call that has to fail with this exit and code, and with a hint.
func (s *sprite) fails(name string, input any, exit int, code string) *protocol.Fault {
	s.t.Helper()
	got, result := s.call(name, input)
	if result.Error == nil || got != exit || result.Error.Code != code {
		s.t.Fatalf("%s %v = exit %d, %s, want exit %d, code %s", name, input, got, quote(result), exit, code)
	}
	if code != "bad_input" && result.Error.Hint == "" {
		s.t.Errorf("%s %v fails without a hint: %s", name, input, quote(result))
	}
	return result.Error
}

func (s *sprite) write(name, content string) {
	s.t.Helper()
	full := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(content), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sprite) link(name, target string) {
	s.t.Helper()
	if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sprite) read(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// tree is all files of the workspace but the runtime's: "name=content", folders with a slash, links with an arrow.
func (s *sprite) tree() string {
	s.t.Helper()
	var all []string
	err := filepath.WalkDir(s.dir, func(name string, d iofs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.dir, name)
		switch {
		case err != nil:
			return err
		case rel == ".":
		case rel == ".lattice":
			return iofs.SkipDir
		case d.IsDir():
			all = append(all, rel+"/")
		case d.Type()&iofs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			all = append(all, rel+"->"+target)
			return err
		case d.Type().IsRegular():
			all = append(all, rel+"="+s.read(rel))
		default:
			all = append(all, rel+"?")
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(all, " ")
}

func quote(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

type object = map[string]any

// strs is a list of strings of a result.
func strs(v any) []string {
	all := []string{}
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, e.(string))
	}
	return all
}
