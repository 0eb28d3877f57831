package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	fine := func(name string) Probe {
		return Probe{Name: name, Look: func(context.Context) []Check { return []Check{{name, OK, "fine", ""}} }}
	}
	warned := Probe{Name: "w", Look: func(context.Context) []Check { return []Check{{"w1", Warn, "d", "r"}, {"w2", OK, "d", ""}} }}
	r := Run(t.Context(), []Probe{fine("a"), warned, fine("b"), fine("c"), fine("d"), fine("e")})
	if got := names(r); got != "a=ok w1=warn w2=ok b=ok c=ok d=ok e=ok" || !r.OK {
		t.Errorf("Run = %s, ok %v", got, r.OK)
	}
	r = Run(t.Context(), []Probe{
		{Name: "hangs", Limit: time.Nanosecond, Look: func(context.Context) []Check { <-release; return nil }},
		{Name: "heeds", Limit: time.Nanosecond, Look: func(ctx context.Context) []Check {
			<-ctx.Done()
			return []Check{{"heeds", Fail, ctx.Err().Error(), "x"}}
		}},
		{Name: "panics", Look: func(context.Context) []Check { panic("oh") }},
		fine("z"),
	})
	if got := names(r); got != "hangs=fail heeds=fail panics=fail z=ok" || r.OK {
		t.Errorf("Run = %s, ok %v", got, r.OK)
	}
	for _, c := range r.Checks[:3] {
		if c.Detail == "" || c.Remedy == "" {
			t.Errorf("%+v, want a detail and a remedy", c)
		}
	}
	if data, err := json.Marshal(Run(t.Context(), nil)); err != nil || string(data) != `{"ok":true,"checks":[]}` {
		t.Errorf("an empty report = %s, %v", data, err)
	}
}

func names(r Report) string {
	var all []string
	for _, c := range r.Checks {
		all = append(all, c.Name+"="+string(c.Status))
	}
	return strings.Join(all, " ")
}

func TestJudges(t *testing.T) {
	for name, c := range map[string]struct {
		check Check
		want  Status
	}{
		"much room":      {Disk("/d", Space{Free: 50 * gib, Total: 100 * gib, Kind: "ext4"}), OK},
		"little room":    {Disk("/d", Space{Free: 900 * mib, Total: 100 * gib}), Warn},
		"no room":        {Disk("/d", Space{Free: 10 * mib, Total: 100 * gib}), Fail},
		"few inodes":     {Disk("/d", Space{Free: 50 * gib, FreeInodes: 5000, AllInodes: 1e6}), Warn},
		"no inodes":      {Disk("/d", Space{Free: 50 * gib, FreeInodes: 5, AllInodes: 1e6}), Fail},
		"git":            {Git("/usr/bin/git", "git version 2.39.5\n"), OK},
		"git of Apple":   {Git("/usr/bin/git", "git version 2.39.3 (Apple Git-146)\n"), OK},
		"git of Windows": {Git("git", "git version 2.45.1.windows.1"), OK},
		"newer git":      {Git("git", "git version 3.0.0"), OK},
		"old git":        {Git("git", "git version 2.30.2"), Fail},
		"older git":      {Git("git", "git version 1.99.9"), Fail},
		"no git":         {Git("git", "command not found"), Fail},
		"kernel":         {Kernel("Linux", "6.18.44", "x86_64"), OK},
		"old kernel":     {Kernel("Linux", "5.4.0-190-generic", "x86_64"), Warn},
		"just so":        {Kernel("Linux", "5.12-rc1", "x86_64"), OK},
		"odd kernel":     {Kernel("Linux", "custom", "x86_64"), Warn},
		"other system":   {Kernel("Darwin", "24.1.0", "arm64"), Warn},
		"limits":         {KernelLimits(map[string]uint64{"user/max_user_namespaces": 256, "nofile": 1 << 20}), OK},
		"low limit":      {KernelLimits(map[string]uint64{"user/max_user_namespaces": 0, "nofile": 1 << 20}), Warn},
		"few open files": {KernelLimits(map[string]uint64{"nofile": 256}), Warn},
		"visible":        {Program{Kind: "tool", Name: "go", Path: "/usr/local/go/bin/go", Inside: "/usr/local/go/bin/go", Said: "go version go1.26"}.Judge(), OK},
		"broken inside":  {Program{Kind: "tool", Name: "x", Path: "/x", Inside: "/x", Exit: 126, Said: "Permission denied"}.Judge(), Warn},
		"invisible":      {Program{Kind: "agent", Name: "claude", Path: "/home/a/claude", Show: []string{"/home/a/claude"}}.Judge(), Warn},
		"hopeless":       {Program{Kind: "agent", Name: "claude", Path: "/snap/bin/claude", Note: "a snap"}.Judge(), Warn},
		"not found out":  {Program{Kind: "agent", Name: "claude", Path: "/x", Trial: errors.New("no sprite")}.Judge(), Warn},
	} {
		if c.check.Status != c.want || c.check.Detail == "" || c.check.Name == "" {
			t.Errorf("%s: %+v, want %s", name, c.check, c.want)
		}
		if (c.check.Remedy == "") != (c.want == OK) && name != "not found out" {
			t.Errorf("%s: remedy %q with %s", name, c.check.Remedy, c.want)
		}
	}
	if remedy := (Program{Name: "codex", Path: "/p", Show: []string{"/a", "/b"}}).Judge().Remedy; !strings.HasPrefix(remedy, "--tool /a --tool /b (") {
		t.Errorf("remedy = %q", remedy)
	}
	if remedy := KernelLimits(map[string]uint64{"user/max_user_namespaces": 0, "nofile": 256}).Remedy; remedy != "ulimit -n 4096; sysctl -w user.max_user_namespaces=256" {
		t.Errorf("remedy = %q", remedy)
	}
	for kind, want := range map[string]Status{"ext4": OK, "btrfs": OK, "nfs": Warn, "tmpfs": Warn, "overlay": OK} {
		if got, remedy := FileSystem(kind); got != want || (remedy == "") != (want == OK) {
			t.Errorf("FileSystem(%s) = %s, %q", kind, got, remedy)
		}
	}
	for n, want := range map[uint64]string{0: "0 MiB", 5 * mib: "5 MiB", 3 * gib / 2: "1.5 GiB", 76 * gib: "76 GiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
