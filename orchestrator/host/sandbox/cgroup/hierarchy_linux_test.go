package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHierarchiesAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mounts, membership string
		want               []hierarchy
	}{
		"unified": {
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n24 1 0:5 / /proc rw - proc proc rw\n",
			"0::/user.slice/user-1000.slice/session-2.scope\n",
			[]hierarchy{{unified: true, top: "/sys/fs/cgroup", own: "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"}},
		},
		"hybrid": {
			"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n32 30 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
				"33 30 0:29 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"5:cpu,cpuacct:/a:b\n4:pids:/\n3:devices:/\n0::/x\n",
			[]hierarchy{
				{top: "/sys/fs/cgroup/cpu,cpuacct", own: "/sys/fs/cgroup/cpu,cpuacct/a:b", controllers: []string{"cpu"}},
				{top: "/sys/fs/cgroup/pids", own: "/sys/fs/cgroup/pids", controllers: []string{"pids"}},
				{unified: true, top: "/sys/fs/cgroup/unified", own: "/sys/fs/cgroup/unified/x"},
			},
		},
		"a container's mount shows its own group": {
			"31 30 0:27 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/c1/job\n",
			[]hierarchy{{top: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory/job", controllers: []string{"memory"}}},
		},
		"another's mount":         {"31 30 0:27 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/c10\n", nil},
		"what cannot be read":     {"31 30\n\n - cgroup\n", "x\n", nil},
		"nothing":                 {"", "", nil},
		"a hierarchy of no use":   {"31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n", "1:name=systemd:/\n", nil},
		"a process of no group":   {"34 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "4:memory:/\n", nil},
		"the same mounted twice":  {"1 0 0:3 / /a rw - cgroup2 cgroup2 rw\n2 0 0:3 / /b rw - cgroup2 cgroup2 rw\n", "0::/\n", []hierarchy{{unified: true, top: "/a", own: "/a"}}},
		"above the process's own": {"34 30 0:30 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n", nil},
	} {
		got := parseHierarchies(c.mounts, c.membership)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(hierarchy{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
