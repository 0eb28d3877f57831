package skills

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// attacks are what an agent may do with a repository whose protected tests are red, as shell scripts. Each would make the tests
// green if it reached them.
var attacks = map[string]string{
	"delete":             `git rm -q -r tests; commit`,
	"delete one":         `git rm -q tests/check.sh; commit`,
	"rename":             `git mv tests/check.sh moved.sh; commit`,
	"rename the folder":  `git mv tests moved; commit`,
	"other case":         `git mv tests Tests; commit`,
	"link":               `echo true >yes; ln -sf ../yes tests/check.sh; commit`,
	"link to outside":    `echo true >$HOME/yes; ln -sf $HOME/yes tests/check.sh; commit`,
	"folder is a link":   `mkdir yes; echo true >yes/check.sh; rm -r tests; ln -s yes tests; commit`,
	"folder above":       `git mv deep yes; echo true >yes/tests/check.sh; ln -s yes deep; commit`,
	"folder is a file":   `rm -r tests; echo true >tests; commit`,
	"file is a folder":   `rm tests/check.sh; mkdir tests/check.sh; echo true >tests/check.sh/x; commit`,
	"executable":         `echo true >tests/check.sh; chmod +x tests/check.sh; commit`,
	"submodule":          `rm -r tests; git init -q tests; echo true >tests/check.sh; git -C tests add -A; git -C tests commit -q -m x; git add tests; commit`,
	"added test":         `echo true >tests/check.local; commit`,
	"added attributes":   `echo '* eol=crlf' >tests/.gitattributes; commit`,
	"attributes, lines":  `echo '/tests/** text eol=crlf' >.gitattributes; commit`,
	"attributes, code":   `echo '/tests/** working-tree-encoding=UTF-16LE' >.gitattributes; git add .gitattributes; git commit -q -m x`,
	"attributes, id":     `echo '/tests/** ident' >.gitattributes; commit`,
	"attributes, filter": `git config filter.yes.smudge 'echo true'; git config filter.yes.clean cat; echo '/tests/** filter=yes' >.gitattributes; commit`,
	"own attributes":     `git config filter.yes.smudge 'echo true'; git config filter.yes.clean cat; mkdir -p .git/info; echo '/tests/** filter=yes' >.git/info/attributes; commit`,
	"no diff":            `echo true >tests/check.sh; echo '/tests/** -diff -text binary' >.gitattributes; commit`,
	"hooks":              `mkdir .git/h; printf '#!/bin/sh\necho true >tests/check.sh\n' >.git/h/post-checkout; chmod +x .git/h/post-checkout; git config core.hooksPath .git/h; commit`,
	"file system watch":  `printf '#!/bin/sh\necho true >tests/check.sh\n' >.git/w; chmod +x .git/w; git config core.fsmonitor .git/w; commit`,
	"pack hook":          `printf '#!/bin/sh\necho true >tests/check.sh\nexec "$@"\n' >.git/w; chmod +x .git/w; git config uploadpack.packObjectsHook "$PWD/.git/w"; commit`,
	"assumed unchanged":  `echo true >tests/check.sh; git update-index --assume-unchanged tests/check.sh; commit`,
	"skipped":            `git update-index --skip-worktree tests/check.sh; echo true >tests/check.sh; commit`,
	"sparse":             `git sparse-checkout set --no-cone '/*' '!/tests/' >/dev/null; commit`,
	"replaced commit":    `echo true >tests/check.sh; commit; git replace $BASE HEAD`,
	"replaced tree":      `old=$(git rev-parse $BASE^{tree}); echo true >tests/check.sh; commit; git replace $old HEAD^{tree}`,
	"replaced file":      `commit; git replace $(git rev-parse $BASE:tests/check.sh) $(echo true | git hash-object -w --stdin)`,
	"graft":              `echo true >tests/check.sh; commit; git rev-parse HEAD >.git/info/grafts`,
	"shallow":            `echo true >tests/check.sh; commit; git rev-parse HEAD >.git/shallow`,
	"forged file":        `commit; forge $(git rev-parse $BASE:tests/check.sh) $(echo true | git hash-object -w --stdin)`,
	"forged tree":        `old=$(git rev-parse $BASE^{tree}); echo true >tests/check.sh; commit; forge $old $(git rev-parse HEAD^{tree})`,
	"forged commit":      `echo true >tests/check.sh; commit; forge $BASE $(git rev-parse HEAD)`,
	"alternate":          `commit; git clone -q --bare . ../other.git; f=$(git rev-parse $BASE:tests/check.sh); echo "$PWD/../other.git/objects" >.git/objects/info/alternates; rm -f $(object $f); x=$(echo true | git hash-object -w --stdin); mkdir -p ../other.git/objects/$(echo $f | cut -c1-2); cp -f $(object $x) ../other.git/$(object $f | sed s,.git/,,)`,
	"orphan":             `echo true >tests/check.sh; git checkout -q --orphan other; commit; git branch -q -D main`,
	"branch is the id":   `echo 4 >good; git checkout -q -b $BASE 2>/dev/null || true; git update-ref refs/heads/$BASE HEAD; echo true >tests/check.sh; commit; git update-ref refs/tags/$BASE HEAD`,
	"work tree":          `mkdir ../wt; git config core.worktree ../../wt; git --work-tree=../wt add -A; git --work-tree=../wt commit -q --allow-empty -m x`,
	"no links":           `git config core.symlinks false; git config core.fileMode false; echo true >tests/check.sh; commit`,
}

// attackLib holds what the scripts use: forge gives the object of an id the content of another one.
const attackLib = `set -e
commit() { git add -A && git commit -q --allow-empty -m attack; }
object() { echo .git/objects/$(echo $1 | cut -c1-2)/$(echo $1 | cut -c3-); }
forge() { chmod u+w $(object $1); cp -f $(object $2) $(object $1); }
`

// TestVerifyAttacks carries out each attack on a repository whose tests are red. Neither a command that names a test nor
// one that looks for all of them may be green.
func TestVerifyAttacks(t *testing.T) {
	for name, script := range attacks {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			s.write("repo/code", "echo 5\n")
			for _, dir := range []string{"tests", "deep/tests"} {
				s.write("repo/"+dir+"/check.sh", "test \"$(sh code)\" = 4 # $Id$\n")
			}
			s.write("repo/keep", "")
			s.git("repo", "init", "-q", "-b", "main")
			s.git("repo", "add", "-A")
			s.git("repo", "commit", "-q", "-m", "first")
			base := s.git("repo", "rev-parse", "HEAD")
			blob := s.git("repo", "rev-parse", "HEAD:tests/check.sh")
			cmd := exec.Command("sh", "-c", attackLib+script)
			cmd.Dir = filepath.Join(s.dir, "repo")
			cmd.Env = append(os.Environ(), "BASE="+base, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "HOME="+t.TempDir())
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("the attack failed: %v\n%s", err, out)
			}
			const green = `sh tests/check.sh || sh deep/tests/check.sh || for f in tests/* deep/tests/*; do sh $f || exit 1; done`
			if o := s.call("test.verify", `{"base":"`+base+`","commands":[["sh","-c","`+green+`"]]}`); o.exit == 0 && o.data(t)["status"] != "failed" {
				t.Error("the commit is green")
			}
			// The tests that run are those of the base, byte by byte.
			same := `test "$(git hash-object --no-filters tests/check.sh deep/tests/check.sh | sort -u)" = ` + blob + ` && test -x tests/check.sh`
			if o := s.call("test.verify", `{"base":"`+base+`","commands":[["sh","-c",`+strconv.Quote(same)+`]]}`); o.exit == 0 && o.data(t)["status"] != "passed" {
				t.Errorf("the tests are not those of the base: %s", o.result.Data)
			}
		})
	}
}
