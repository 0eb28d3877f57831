package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func parse(t *testing.T, text string) fleet.Document {
	t.Helper()
	d, findings := fleet.Parse([]byte("name = \"site\"\n" + text))
	if len(findings) > 0 {
		t.Fatalf("Parse: %v", findings)
	}
	return d
}

func observe(name, status string, labels ...string) fleet.Observed {
	return fleet.Observed{Sprite: sprites.Sprite{Name: name, Status: status, Labels: labels}}
}

// with returns o with services, "name" or "name<other" for one that needs another.
func with(o fleet.Observed, services ...string) fleet.Observed {
	for _, text := range services {
		name, need, ok := strings.Cut(text, "<")
		v := sprites.Service{Name: name, Cmd: "run", State: &sprites.ServiceState{Status: "running"}}
		if ok {
			v.Needs = []string{need}
		}
		o.Services = append(o.Services, v)
	}
	return o
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const ours = "lattice-fleet=site"
	open := observe("web", "warm", ours)
	open.URLSettings = &sprites.URLSettings{Auth: "public"}
	open.Rules = []sprites.NetworkRule{{Domain: "b.example", Action: "deny"}, {Include: "defaults"}}
	small := observe("web", "cold", ours)
	small.Config = &sprites.Config{RAMMB: 512, CPUs: 2}
	ofRun := observe("web", "warm", ours)
	ofRun.Run = "run_1"
	stopped, failing := with(observe("web", "warm", ours), "db"), with(observe("web", "warm", ours), "db")
	stopped.Services[0].State.Status = "stopped"
	due := time.Unix(1, 0)
	imaged := func(has, wanted string) []fleet.Observed {
		o := observe("web", "warm", ours)
		o.Image, o.Wanted = has, wanted
		return []fleet.Observed{o}
	}
	failing.Services[0].State = &sprites.ServiceState{Status: "failed", NextRestartAt: &due}

	for _, c := range []struct {
		name, file string
		observed   []fleet.Observed
		want       []string
	}{
		{"nothing declared", "", nil, nil},
		{"missing", "[sprites.web]\nnetwork = { allow = [\"*\"] }\n[sprites.web.services.a]\ncmd = \"run\"\nneeds = [\"b\"]\n[sprites.web.services.b]\ncmd = \"run\"", nil,
			[]string{"web create", "web set_policy", "web put_service b", "web put_service a"}},
		{"as declared", "[sprites.web]", []fleet.Observed{observe("web", "cold", ours, "mine")}, nil},
		{"a sprite of a person is adopted", "[sprites.web]\nlabels = [\"x\"]", []fleet.Observed{observe("web", "cold", "mine")}, []string{"web set_labels: without lattice-fleet=site, x"}},
		{"must not exist", "[sprites.web]\nexists = false\n[sprites.gone]\nexists = false", []fleet.Observed{observe("web", "cold")}, []string{"web remove: exists is false"}},
		{"not declared", "", []fleet.Observed{observe("old", "cold", ours)}, []string{"old remove: the file does not declare it"}},
		{"sprites of others stay", "", []fleet.Observed{observe("a", "cold"), observe("b", "cold", "lattice-fleet=other"), ofRun},
			[]string{"a unmanaged", "b unmanaged: it belongs to the fleet other"}},
		{"declared sprites of others stay as they are", "[sprites.web]\nexists = false\n[sprites.b]\nwarm = true", []fleet.Observed{ofRun, observe("b", "cold", "lattice-fleet=other")},
			[]string{"b differs: it belongs to the fleet other", "web differs: it belongs to run_1"}},
		{"same policy in another order", "[sprites.web]\nurl = \"public\"\nnetwork = { include = [\"defaults\"], deny = [\"b.example\"] }", []fleet.Observed{open}, nil},
		{"other policy and URL", "[sprites.web]\nurl = \"sprite\"\nnetwork = { include = [\"defaults\"] }", []fleet.Observed{open},
			[]string{"web set_url: public, not sprite", "web set_policy: it has other rules"}},
		{"warm, and limits of a sprite that exists", "[sprites.web]\nwarm = true\nram_mb = 1024\ncpus = 2", []fleet.Observed{small},
			[]string{"web wake: it is cold", "web differs: ram_mb is 512, not 1024: only a new sprite changes it"}},
		{"the image that is declared", "[sprites.web]\nimage = \"root\"", imaged("sha256:a1", "sha256:a1"), nil},
		{"another image", "[sprites.web]\nimage = \"root\"", imaged("sha256:a1", "sha256:b2"), []string{"web differs: the image is sha256:a1, not sha256:b2: only a new sprite changes it"}},
		{"no image", "[sprites.web]\nimage = \"root\"", imaged("", "sha256:b2"), []string{"web differs: the image is none, not sha256:b2: only a new sprite changes it"}},
		{"an image where none is declared", "[sprites.web]\nimage = \"none\"", imaged("sha256:a1", sprites.NoImage), []string{"web differs: the image is sha256:a1, not none: only a new sprite changes it"}},
		{"none, as declared", "[sprites.web]\nimage = \"none\"", imaged("", sprites.NoImage), nil},
		{"an image that the host does not tell", "[sprites.web]\nimage = \"root\"", imaged("sha256:a1", ""), nil},
		{"services that are not declared at all", "[sprites.web]", []fleet.Observed{with(observe("web", "warm", ours), "db")}, nil},
		{"an empty list of services", "[sprites.web.services]", []fleet.Observed{with(observe("web", "warm", ours), "db", "app<db")},
			[]string{"web remove_service app: the file does not declare it", "web remove_service db: the file does not declare it"}},
		{"a service that a remaining one needs is removed last", "[sprites.web.services.app]\ncmd = \"run\"", []fleet.Observed{with(observe("web", "warm", ours), "db", "mid<db", "app<mid", "solo")},
			[]string{"web remove_service solo: the file does not declare it", "web put_service app: it has another definition", "web remove_service mid: the file does not declare it", "web remove_service db: the file does not declare it"}},
		{"a stopped service", "[sprites.web.services.db]\ncmd = \"run\"", []fleet.Observed{stopped}, []string{"web start_service db: it is stopped"}},
		{"a service that the host starts again", "[sprites.web.services.db]\ncmd = \"run\"", []fleet.Observed{failing}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, change := range fleet.Compare(parse(t, c.file), c.observed) {
				text := fmt.Sprintf("%s %s", change.Sprite, change.Step)
				if change.Service != "" {
					text += " " + change.Service
				}
				if change.Reason != "" && change.Reason != "it does not exist" {
					text += ": " + change.Reason
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("Compare returned\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

func TestParseRefusesValuesThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	_, findings := fleet.Parse([]byte(`
[sprites.web]
url = "all"
colour = "red"
network = {}
labels = ["lattice-fleet=other"]
cpus = -1
[sprites.web.services.a]
cmd = "run"
needs = ["b"]
http_port = 80
[sprites.web.services.b]
dir = "x"
needs = ["a", "c"]
http_port = 81
`))
	var got []string
	for _, f := range findings {
		got = append(got, f.Text())
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"name: the fleet needs a name", "line 3: sprites.web.url: it must be sprite or public", "line 4: sprites.web.colour: there is no such setting",
		"line 5: sprites.web.network: it has no rules", "labels that begin with lattice-fleet= are set by lattice", "a limit is below 0",
		"sprites.web.services.b: a service needs cmd", "sprites.web.services.b.needs: the sprite has no service c", "more than one service has http_port", "services need each other in a circle: a, b"} {
		if !strings.Contains(text, want) {
			t.Errorf("no finding %q in\n%s", want, text)
		}
	}
}

// The digest tells changes apart, and not reports.
func TestDigest(t *testing.T) {
	t.Parallel()
	change := fleet.Change{Sprite: "a", Step: fleet.Create}
	report := fleet.Change{Sprite: "b", Step: fleet.Unmanaged}
	if fleet.Digest([]fleet.Change{change, report}) != fleet.Digest([]fleet.Change{change}) || fleet.Digest([]fleet.Change{change}) == fleet.Digest(nil) {
		t.Error("the digest does not stand for the changes alone")
	}
}
