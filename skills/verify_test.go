package skills

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// verifiable makes a repository whose check passes if the code says 4, and returns its first commit.
func verifiable(s *sprite) (base string) {
	s.write("repo/code", "echo 4\n")
	s.write("repo/tests/check.sh", "test $(sh code) = 4\n")
	s.git("repo", "init", "-q", "-b", "main")
	s.git("repo", "add", "-A")
	s.git("repo", "commit", "-q", "-m", "first")
	return s.git("repo", "rev-parse", "HEAD")
}

func TestVerify(t *testing.T) {
	const check = `[["sh","tests/check.sh"]]`
	tests := map[string]struct {
		change   func(s *sprite) // before everything is committed
		after    func(s *sprite) // the commit
		input    string
		status   string
		restored string
	}{
		"no change":                 {status: "passed"},
		"broken code":               {change: func(s *sprite) { s.write("repo/code", "echo 5\n") }, status: "failed"},
		"code and test are changed": {change: func(s *sprite) { s.write("repo/code", "echo 5\n"); s.write("repo/tests/check.sh", "true\n") }, status: "failed", restored: "tests/check.sh"},
		"test is removed": {change: func(s *sprite) {
			s.write("repo/code", "echo 5\n")
			s.git("repo", "rm", "-q", "tests/check.sh")
		}, status: "failed", restored: "tests/check.sh"},
		"added test does not count": {change: func(s *sprite) { s.write("repo/tests/more.sh", "true\n") }, input: `,"commands":[["sh","tests/more.sh"]]`, status: "failed", restored: "tests/more.sh"},
		"test became a link": {change: func(s *sprite) {
			s.write("repo/code", "echo 5\n")
			s.write("repo/yes", "true\n")
			s.git("repo", "rm", "-q", "-r", "tests")
			if err := os.Symlink("../yes", filepath.Join(s.dir, "repo/tests")); err != nil {
				s.t.Fatal(err)
			}
		}, status: "failed", restored: "tests/check.sh"},
		"untracked file":   {change: func(s *sprite) { s.write("repo/code", "cat answer\n") }, after: func(s *sprite) { s.write("repo/answer", "4\n") }, status: "failed"},
		"uncommitted edit": {change: func(s *sprite) { s.write("repo/code", "echo 5\n") }, after: func(s *sprite) { s.write("repo/code", "echo 4\n") }, status: "failed"},
		"replaced object": {change: func(s *sprite) { s.write("repo/tests/check.sh", "true\n"); s.write("repo/code", "echo 5\n") }, after: func(s *sprite) {
			s.git("repo", "replace", s.git("repo", "rev-parse", "HEAD~1"), s.git("repo", "rev-parse", "HEAD"))
		}, status: "failed", restored: "tests/check.sh"},
		"settings above":      {after: func(s *sprite) { s.write("go.work", "broken") }, input: `,"commands":[["sh","-c","! test -e ../go.work"]]`, status: "passed"},
		"own patterns":        {change: func(s *sprite) { s.write("repo/code", "echo 5\n") }, input: `,"protect":["code"],"commands":` + check, status: "passed", restored: "code"},
		"first red ends":      {input: `,"commands":[["true"],["false"],["sh","-c","touch $HOME/ran"]]`, status: "failed"},
		"timeout is red":      {input: `,"commands":[["sleep","1000"]],"timeout_s":0.1`, status: "failed"},
		"nothing for a shell": {input: `,"commands":[["test","$HOME","=","$HOME"],["test","a;b","!=","a"]]`, status: "passed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			base := verifiable(s)
			if test.change != nil {
				test.change(s)
			}
			s.git("repo", "add", "-A")
			s.git("repo", "commit", "-q", "--allow-empty", "-m", "second")
			if test.after != nil {
				test.after(s)
			}
			if test.input == "" {
				test.input = `,"commands":` + check
			}
			data := s.must("test.verify", `{"base":"`+base+`"`+test.input+`}`)
			restored := []string{}
			for _, name := range data["restored"].([]any) {
				restored = append(restored, name.(string))
			}
			if data["status"] != test.status || strings.Join(restored, " ") != test.restored {
				t.Errorf("test.verify = %v, want %s with %s restored", data, test.status, test.restored)
			}
			if data["commit"] != s.git("repo", "rev-parse", "HEAD") || data["tree"] != s.git("repo", "rev-parse", "HEAD^{tree}") {
				t.Errorf("test.verify = %v, want HEAD and its tree", data)
			}
			left, err := os.ReadDir(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range left {
				if strings.HasPrefix(e.Name(), "verify-") {
					t.Errorf("%s is left behind", e.Name())
				}
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	s := newSprite(t)
	base := verifiable(s)
	for name, test := range map[string]struct {
		input string
		exit  int
		code  string
	}{
		"short base":    {`{"base":"` + base[:12] + `"}`, 2, "bad_input"},
		"absent base":   {`{"base":"` + strings.Repeat("0", 40) + `","commands":[["true"]]}`, 3, "ref_not_found"},
		"a tree":        {`{"base":"` + base + `","commit":"HEAD^{tree}","commands":[["true"]]}`, 2, "bad_input"},
		"no program":    {`{"base":"` + base + `","commands":[[]]}`, 2, "bad_input"},
		"absent one":    {`{"base":"` + base + `","commands":[["no-such-program"]]}`, 8, "unsupported"},
		"outside":       {`{"base":"` + base + `","cwd":"../..","commands":[["true"]]}`, 2, "bad_input"},
		"no tests here": {`{"base":"` + base + `"}`, 8, "unknown_framework"},
	} {
		t.Run(name, func(t *testing.T) { s.on(t).fails("test.verify", test.input, test.exit, test.code) })
	}
}
