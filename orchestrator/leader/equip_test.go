package leader_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/sprites"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
	"github.com/spritekit/lattice/spritekit/fault"
)

// remote is a host that has no skills for its sprites, as remote services have none, behind a middleman.
type remote struct {
	t        *testing.T
	man      *Middleman
	client   *sprites.Client
	warnings []string
	skillset.Equipment
}

func newRemote(t *testing.T, skills string) *remote {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Skills: skills, NoRoot: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &remote{t: t, man: NewMiddleman(t, host.Handler())}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = sprites.New(r.man.URL, "", &http.Client{Transport: transport})
	r.Equipment = skillset.Equipment{
		Client: r.client, Warn: func(w string) { r.warnings = append(r.warnings, w) },
		Find: func(arch string) (string, error) { return skillset.FindSpritekitFor(spritekit, "", "", arch) },
	}
	if _, err := r.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *remote) sh(script string) string {
	r.t.Helper()
	var out strings.Builder
	if code, err := r.client.Exec(r.t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out}); code != 0 || err != nil {
		r.t.Fatalf("sh -c %q = %d, %v: %s", script, code, err, &out)
	}
	return out.String()
}

// requests counts pushes and execs that came by since the last time.
func (r *remote) requests() (pushes, execs int) {
	return r.man.Count(On("PUT", "/fs/write")), r.man.Count(Exec)
}

func TestSkillsArePushedOnce(t *testing.T) {
	r := newRemote(t, "")
	r.sh("mkdir /skills/mine && echo kept >/skills/mine/run && echo other >/skills/other")
	pushes, execs := r.requests()
	if err := r.Equip(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	p, e := r.requests()
	if p-pushes != 2 || e-execs != 3 {
		t.Errorf("first use: %d pushes and %d execs, want 2, of spritekit and its second file, and 3", p-pushes, e-execs)
	}
	if got := r.sh(`echo '{"path":"a","content":"b"}' | /skills/fs.write | tail -1; cat /skills/mine/run /skills/other; ls -A /tmp`); !strings.Contains(got, `"ok":true`) || !strings.HasSuffix(got, "kept\nother\n") {
		t.Errorf("after the push: %s", got)
	}
	pushes, execs = r.requests()
	if err := r.Equip(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	p, e = r.requests()
	if p != pushes || e-execs != 1 {
		t.Errorf("second use: %d pushes and %d execs, want 0 and 1", p-pushes, e-execs)
	}
	if len(r.warnings) > 0 {
		t.Errorf("warnings: %q", r.warnings)
	}
}

func TestOtherSkillsAreReplacedAndSaid(t *testing.T) {
	r := newRemote(t, "")
	for _, breakIt := range []string{"rm /skills/spritekit; printf '#!/bin/sh\\necho {}' >/skills/spritekit && chmod +x /skills/spritekit", "rm /skills/fs.read"} {
		if err := r.Equip(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.warnings = nil
		r.sh(breakIt)
		if err := r.Equip(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		r.sh("[ -e /skills/fs.read ] && /skills/spritekit version")
	}
	r.sh("rm /skills/spritekit; printf '#!/bin/sh\\necho {}' >/skills/spritekit")
	if err := r.Equip(t.Context(), "s"); err != nil || len(r.warnings) != 1 || !strings.Contains(r.warnings[0], "replaced") {
		t.Errorf("Equip = %v with warnings %q", err, r.warnings)
	}
}

// TestSkillsThatCannotBeWritten: those of the host are used when they speak our protocol, and never replaced.
func TestSkillsThatCannotBeWritten(t *testing.T) {
	install := func(spritekit string) string {
		dir, err := skillset.InstallSkills(home.Home(t.TempDir()), spritekit)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	other := filepath.Join(t.TempDir(), "spritekit")
	data, err := os.ReadFile(spritekit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, append(data, "another build"...), 0o755); err != nil {
		t.Fatal(err)
	}
	odd := t.TempDir()
	if err := os.WriteFile(filepath.Join(odd, "spritekit"), []byte("#!/bin/sh\necho '{\"protocol\":\"v9\"}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ skills, warning, fails string }{
		"the same":         {skills: install(spritekit)},
		"another build":    {skills: install(other), warning: "used as they are"},
		"another protocol": {skills: odd, fails: `protocol "v9"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRemote(t, c.skills)
			err := r.Equip(t.Context(), "s")
			if pushes, _ := r.requests(); pushes != 0 {
				t.Errorf("%d pushes, want none", pushes)
			}
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("Equip = %v, want %q", err, c.fails)
			}
			if got := strings.Join(r.warnings, "; "); !strings.Contains(got, c.warning) || c.warning == "" && got != "" {
				t.Errorf("warnings = %q, want %q", got, c.warning)
			}
		})
	}
}

// TestSpritesThatCannotBeEquipped: the reason and the remedy are said, and nothing is half done.
func TestSpritesThatCannotBeEquipped(t *testing.T) {
	r := newRemote(t, "")
	r.sh("chmod 555 /skills")
	var refused *fault.Error
	if err := r.Equip(t.Context(), "s"); !errors.As(err, &refused) || refused.Fault.Code != "skills_missing" || !strings.Contains(refused.Fault.Hint, "sudo") {
		t.Errorf("Equip with a /skills that cannot be written = %v", err)
	}
	r.sh("chmod 755 /skills")
	r.Find = func(arch string) (string, error) { return skillset.FindSpritekitFor("", "", "", "mips") }
	if err := r.Equip(t.Context(), "s"); !errors.As(err, &refused) || refused.Fault.Code != "spritekit_missing" || !strings.Contains(refused.Fault.Hint, "GOARCH=mips") {
		t.Errorf("Equip without a spritekit = %v", err)
	}
	if err := r.Equip(t.Context(), "nobody"); !errors.Is(err, sprites.ErrNotFound) {
		t.Errorf("Equip of no sprite = %v", err)
	}
	if pushes, _ := r.requests(); pushes != 0 {
		t.Errorf("%d pushes", pushes)
	}
}

func TestPushThroughAMiddleman(t *testing.T) {
	for name, faults := range map[string][]Fault{
		"the look is cut":            {{On: Exec, Down: CutAt("digest")}},
		"the push is cut twice":      {{On: On("PUT", "/fs/write"), Times: 2, After: CutAfter(-1)}},
		"the install's end is lost":  {{On: func(r *http.Request) bool { return Exec(r) && strings.Contains(r.URL.RawQuery, "chown") }, Down: CutAt("")}},
		"the install is not started": {{On: func(r *http.Request) bool { return Exec(r) && strings.Contains(r.URL.RawQuery, "chown") }, Instead: Cut}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRemote(t, "")
			for _, f := range faults {
				r.man.Do(f)
			}
			if err := r.Equip(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			r.man.Behave()
			r.sh("/skills/spritekit install /skills --verify")
		})
	}
	t.Run("half of the file arrives", func(t *testing.T) {
		r := newRemote(t, "")
		r.man.Do(Fault{On: On("PUT", "/fs/write"), Instead: func(w http.ResponseWriter, req *http.Request) {
			if err := r.client.WriteFile(req.Context(), "s", req.URL.Query().Get("path"), strings.NewReader("half"), 0o755); err != nil {
				t.Error(err)
			}
			Answer(200, "application/json", `{}`)(w, req)
		}})
		if err := r.Equip(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), "not the one that was sent") {
			t.Errorf("Equip = %v", err)
		}
		r.sh("[ ! -e /skills/spritekit ]")
	})
}

func TestFindSpritekitFor(t *testing.T) {
	dir := t.TempDir()
	elf := func(name string, machine byte) {
		head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
		head[16], head[18], head[20] = 2, machine, 1
		head[52], head[54], head[58] = 64, 56, 64
		if err := os.WriteFile(filepath.Join(dir, name), head, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	elf("spritekit", 62)
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	try := func(told, arch, want string) {
		t.Helper()
		got, err := skillset.FindSpritekitFor(told, filepath.Join(dir, "lattice"), "", arch)
		if want == "" && (err == nil || !strings.Contains(err.Error(), arch)) || want != "" && got != filepath.Join(dir, want) {
			t.Errorf("FindSpritekitFor(%q, %s) = %q, %v, want %q", told, arch, got, err, want)
		}
	}
	try("", "amd64", "spritekit")
	try("", "arm64", "")
	elf("spritekit-linux-arm64", 183)
	try("", "arm64", "spritekit-linux-arm64")
	try(filepath.Join(dir, "spritekit"), "arm64", "spritekit-linux-arm64")
	try(filepath.Join(dir, "script"), "amd64", "")
}
