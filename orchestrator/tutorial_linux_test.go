package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
)

const tutorial = "../docs/tutorial.md"

var updateTutorial = flag.Bool("update-tutorial", false, "write the output of the commands to docs/tutorial.md")

// exchange is a command of a document, and the lines that it prints.
type exchange struct {
	line    int // of the document
	command string
	want    []string
}

// TestTutorial follows docs/tutorial.md: it runs each command of its console blocks on a terminal, in order, and compares
// the screen with the document. Ids, times and paths may differ, but one id of the document stands for one id here.
func TestTutorial(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if !sandbox.Probe(self, buildDir).Namespaces {
		t.Skip("no namespaces here")
	}
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp(buildDir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	t.Cleanup(func() { leftovers(t, home, "") })
	r := reader{t: t, home: home, work: work, dir: work, ids: map[string]string{}}
	steps := readExchanges(string(page))
	if len(steps) < 15 {
		t.Errorf("the tutorial has %d commands, want at least 15", len(steps))
	}
	for _, step := range steps {
		got := r.run(step)
		if *updateTutorial {
			page = []byte(strings.Replace(string(page), "$ "+step.command+"\n"+join(step.want), "$ "+step.command+"\n"+join(r.unlessSame(step.want, got)), 1))
			continue
		}
		if difference := r.compare(step.want, got); difference != "" {
			t.Fatalf("docs/tutorial.md:%d: $ %s\n%s\nthe screen shows:\n%s", step.line, step.command, difference, join(got))
		}
	}
	if *updateTutorial {
		if err := os.WriteFile(tutorial, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readExchanges returns the commands of all console blocks. The document behind a <<'EOF' belongs to its command.
func readExchanges(page string) (all []exchange) {
	inside, document := false, false
	for i, line := range strings.Split(page, "\n") {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch last := len(all) - 1; {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case document:
			all[last].command += "\n" + line
			document = line != "EOF"
		case isCommand:
			all = append(all, exchange{line: i + 1, command: command})
			document = strings.HasSuffix(command, "<<'EOF'")
		default:
			all[last].want = append(all[last].want, line)
		}
	}
	return all
}

// reader is someone who types the commands of the tutorial.
type reader struct {
	t    *testing.T
	home string            // the state directory
	work string            // the home of the reader: /home/ann in the document
	dir  string            // where the reader is
	ids  map[string]string // ids of the document, and the ids here
}

// prompt is a question, and the answer that the reader types.
var prompt = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.*\? \[y/N\] )(\w+)$`) })

// run runs one command and returns the lines on the screen.
func (r *reader) run(step exchange) []string {
	r.t.Helper()
	if dir, ok := strings.CutPrefix(step.command, "cd "); ok {
		r.dir = filepath.Join(r.dir, dir)
		return nil
	}
	command := step.command
	for documented, here := range r.ids {
		command = strings.ReplaceAll(command, documented, here)
	}
	cmd := latticeIn(r.t, r.home)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", command}
	cmd.Dir = r.dir
	cmd.Env = append(cmd.Env, "HOME="+r.work, "PATH="+filepath.Join(r.home, "bin")+":"+os.Getenv("PATH")+":"+buildDir, "PAGER=cat", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	s := openCommand(r.t, cmd)
	var text strings.Builder
	for _, line := range step.want {
		if m := prompt().FindStringSubmatch(line); m != nil {
			text.WriteString(s.wait("[y/N] ") + "[y/N] ")
			s.type_(m[2] + "\n")
		}
	}
	code := s.end()
	const end = "\x1b]end\a"
	if _, err := io.WriteString(s.tty, end); err != nil {
		r.t.Fatal(err)
	}
	text.WriteString(s.wait(end))
	lines := renderScreen(text.String())
	if code != 0 && code != 75 {
		lines = append(lines, fmt.Sprintf("[exit %d]", code))
	}
	for i, line := range lines {
		line = strings.ReplaceAll(line, r.work, "/home/ann")
		if u, err := user.Current(); err == nil {
			line = regexp.MustCompile(`([ ,]|^)`+regexp.QuoteMeta(u.Username)+`([ ,]|$)`).ReplaceAllString(line, "${1}ann${2}")
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}

// unlessSame returns the lines of the document if they match, else those of the screen.
func (r *reader) unlessSame(want, got []string) []string {
	if r.compare(want, got) == "" {
		return want
	}
	return got
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// compare returns how the screen differs from the document. A line … of the document stands for any lines.
func (r *reader) compare(want, got []string) string {
	for i, line := range want {
		if line == "…" {
			if i == len(want)-1 {
				return ""
			}
			next := slices.IndexFunc(got, func(line string) bool { return r.matches(want[i+1], line) })
			if next < 0 {
				return fmt.Sprintf("no line matches\n%s", want[i+1])
			}
			got = got[next:]
			continue
		}
		if len(got) == 0 {
			return fmt.Sprintf("the output ends before\n%s", line)
		}
		if !r.matches(line, got[0]) {
			return fmt.Sprintf("want\n%s\ngot\n%s", line, got[0])
		}
		got = got[1:]
	}
	if len(got) > 0 {
		return fmt.Sprintf("the document does not show\n%s", got[0])
	}
	return ""
}

// variable matches the parts of a line that differ from run to run: numbers of entries, ids of runs, abbreviated and whole digests, dates and
// times, durations, levels of isolation, and the spaces of columns.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\d+ {2,}|run[_-][a-z2-7]{16}|\b[0-9a-f]{7,64}\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\b(?:\d+(?:\.\d+)?[dhms])+\b|\bns-(?:root|user)\b| {2,}`)
})

// matches compares a line of the document with one of the screen, and remembers which ids mean the same.
func (r *reader) matches(want, got string) bool {
	split := func(line string) (fixed, parts []string) {
		return variable().Split(line, -1), variable().FindAllString(line, -1)
	}
	fixed, parts := split(want)
	gotFixed, gotParts := split(got)
	if !slices.Equal(fixed, gotFixed) || len(parts) != len(gotParts) {
		return false
	}
	for i, part := range parts {
		id := strings.TrimPrefix(strings.TrimPrefix(part, "run_"), "run-")
		if id == part {
			continue // only ids of runs are typed again
		}
		here, known := r.ids[id]
		if !known {
			here = gotParts[i][len("run_"):]
			r.ids[id] = here
		}
		if gotParts[i] != part[:len("run_")]+here {
			return false
		}
	}
	return true
}

var control = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\x1b(?:\[([0-9;?]*)([A-Za-z])|\][^\a]*\a|[=>])`) })

// renderScreen returns the lines that a terminal shows in the end.
func renderScreen(raw string) []string {
	lines, row, column := [][]rune{nil}, 0, 0
	for raw != "" {
		if m := control().FindStringSubmatch(raw); m != nil {
			raw = raw[len(m[0]):]
			switch n := 1; m[2] {
			case "A":
				_, _ = fmt.Sscan(m[1], &n)
				row = max(row-n, 0)
			case "K":
				if m[1] == "2" {
					lines[row] = nil
				} else {
					lines[row] = lines[row][:min(column, len(lines[row]))]
				}
			case "J":
				lines = lines[:row+1]
			}
			continue
		}
		char := []rune(raw)[0]
		raw = raw[len(string(char)):]
		switch char {
		case '\r':
			column = 0
		case '\n':
			if row++; row == len(lines) {
				lines = append(lines, nil)
			}
		default:
			for len(lines[row]) <= column {
				lines[row] = append(lines[row], ' ')
			}
			lines[row][column] = char
			column++
		}
	}
	text := make([]string, len(lines))
	for i, line := range lines {
		text[i] = string(line)
	}
	for len(text) > 0 && strings.TrimSpace(text[len(text)-1]) == "" {
		text = text[:len(text)-1]
	}
	return text
}

// TestRenderScreen checks the final text of a display that rewrites its lines.
func TestRenderScreen(t *testing.T) {
	raw := "\x1b[2K\x1b[1mone\x1b[0m\r\n\x1b[2Ktwo\r\n\x1b[2A\x1b[2Kfirst\r\n\x1b[2K2\r\nAsk: y\r\nab\rc\r\n"
	if got, want := renderScreen(raw), []string{"first", "2", "Ask: y", "cb"}; !slices.Equal(got, want) {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
}
