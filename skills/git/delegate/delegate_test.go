package delegate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/skills/git/delegate"
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// TestMain makes this binary stand for the second file, with an engine that answers what it was asked.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == delegate.Command {
		if err := delegate.Serve(context.Background(), echo{}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// echo is an engine whose answers show what arrived.
type echo struct{}

func (echo) Name() string { return engine.Native }

func (echo) Clone(_ context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	if spec.Follow != nil {
		spec.Follow(engine.Progress{Phase: "receiving", Percent: 42})
	}
	return engine.Cloned{Branch: spec.From.Credential.Token + " of " + spec.Root.Dir(), Files: len(os.Args) + len(os.Environ())}, nil
}

func (echo) Refs(context.Context, engine.Source) ([]engine.Ref, error) {
	return nil, engine.Authentication("who are you?")
}

func (echo) Open(_ context.Context, at engine.Location) (engine.Repo, error) {
	return echoRepo{at: at}, nil
}

type echoRepo struct {
	engine.Repo // nil: only the methods below are asked for
	at          engine.Location
}

func (echoRepo) Close() error { return nil }

func (r echoRepo) Status(_ context.Context, spec engine.StatusSpec) (engine.Status, error) {
	value, _ := r.at.Config.Value("user", "", "name")
	return engine.Status{Branch: value, Head: r.at.GitDir, Entries: []engine.StatusEntry{{Path: spec.Paths[0]}}}, nil
}

func (r echoRepo) Bundle(_ context.Context, spec engine.BundleSpec, w io.Writer) error {
	_, err := io.WriteString(w, strings.Repeat(spec.Ref, 100000))
	return err
}

func (r echoRepo) Log(context.Context, engine.LogSpec) (engine.Log, error) {
	return engine.Log{}, errors.New("the disk is on fire")
}

func TestOperationsTravel(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, e := t.Context(), delegate.New(extra.File{Reaper: new(proc.Reaper), Path: self})

	var progress []engine.Progress
	cloned, err := e.Clone(ctx, engine.CloneSpec{
		Root: root, From: engine.Source{Credential: &engine.Credential{Token: "secret"}}, Follow: func(p engine.Progress) { progress = append(progress, p) },
	})
	// The credential came on stdin: the arguments are two, the environment is empty.
	if want := (engine.Cloned{Branch: "secret of " + root.Dir(), Files: 2}); err != nil || cloned != want {
		t.Errorf("Clone = %+v, %v, want %+v", cloned, err, want)
	}
	if diff := cmp.Diff([]engine.Progress{{Phase: "receiving", Percent: 42}}, progress); diff != "" {
		t.Error(diff)
	}
	_, err = e.Refs(ctx, engine.Source{})
	if diff := cmp.Diff(error(engine.Authentication("who are you?")), err); diff != "" {
		t.Errorf("a failure as it was and as it arrived: %s", diff)
	}

	config := gitconfig.Config{{Key: "user.name", Value: "Ada"}}
	repo, err := e.Open(ctx, engine.Location{Root: root, GitDir: "/git", Config: config})
	if err != nil {
		t.Fatal(err)
	}
	status, err := repo.Status(ctx, engine.StatusSpec{Paths: []string{"a"}})
	if err != nil || status.Branch != "Ada" || status.Head != "/git" || status.Entries[0].Path != "a" {
		t.Errorf("Status = %+v, %v", status, err)
	}
	var bundle bytes.Buffer
	if err := repo.Bundle(ctx, engine.BundleSpec{Ref: "HEAD\n\x00"}, &bundle); err != nil || bundle.String() != strings.Repeat("HEAD\n\x00", 100000) {
		t.Errorf("Bundle = %d bytes, %v", bundle.Len(), err)
	}
	if _, err := repo.Log(ctx, engine.LogSpec{}); skill.Fault(err).Message != skill.Fault(errors.New("the disk is on fire")).Message {
		t.Errorf("Log = %v", err)
	}
}

func TestASecondFileThatIsMissingIsSaid(t *testing.T) {
	e := delegate.New(extra.File{Reaper: new(proc.Reaper), Path: filepath.Join(t.TempDir(), "spritekit-extra")})
	_, err := e.Refs(t.Context(), engine.Source{})
	if f := skill.Fault(err); f.Exit != 8 || f.Code != "extra_missing" || f.Hint == "" {
		t.Errorf("Refs = %+v", f)
	}
}

func TestRequestsOfOthersAreRefused(t *testing.T) {
	for _, request := range []string{"", "{}", "[]", `{"method":"rm","spec":{}}`, `{"method":"status","spec":{}}`, `{"method":"refs","spec":{"Unknown":1}}`} {
		var out bytes.Buffer
		err := delegate.Serve(t.Context(), echo{}, strings.NewReader(request), &out)
		if err == nil && !strings.Contains(out.String(), `"failure"`) {
			t.Errorf("%q is answered by %q", request, out.String())
		}
	}
}
