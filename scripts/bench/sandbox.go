package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// sandboxes measures the cost of isolation: the start of a sandbox, a command through the API, and an idle sprite.
func sandboxes(ctx context.Context, dir string, rounds int) ([]figure, error) {
	self, err := filepath.Abs("orchestrator/host/initfile/boxinit") // the init that lattice executes; make has just built it
	if err != nil {
		return nil, err
	}
	if err := os.Setenv("LATTICE_BENCH_SELF", self); err != nil {
		return nil, err
	}
	const in = "./orchestrator/host"
	got, err := goBench(ctx, dir, in, "^BenchmarkSandbox$", 1, "-benchtime", strconv.Itoa(rounds)+"x")
	if err != nil {
		return nil, err
	}
	idle, err := goBench(ctx, dir, in, "^BenchmarkIdle$", 1, "-benchtime", "1x")
	if err != nil {
		return nil, err
	}
	m, i := got["BenchmarkSandbox"], idle["BenchmarkIdle"]
	if m == nil || i == nil {
		return nil, errors.New("the benchmarks Sandbox and Idle are not there")
	}
	const beside = "fork and exec of /bin/true"
	return []figure{
		figure{Name: "sandbox, until ready", Value: m["ms/ready"], Unit: "ms", Ratio: m["x/ready"], Beside: beside}.atMost(m["ms/ready"], 10),
		{Name: "sandbox, until ready, with no init kept ready", Value: m["ms/alone"], Unit: "ms", Ratio: m["ms/alone"] / m["ms/fork"], Beside: beside},
		{Name: "sandbox, made and ended: processor time", Value: m["cpu-ms/box"], Unit: "ms"},
		{Name: "first command of a cold sprite", Value: m["ms/first"], Unit: "ms", Ratio: m["ms/first"] / m["ms/fork"], Beside: beside},
		figure{Name: "/bin/true through the WebSocket", Value: m["ms/exec"], Unit: "ms", Ratio: m["x/exec"], Beside: beside}.atMost(m["x/exec"], 3),
		figure{Name: "idle sprite of 200: memory (PSS)", Value: i["MiB/sprite"], Unit: "MiB"}.atMost(i["MiB/sprite"], 3),
		{Name: "idle sprite of 200: descriptors of the host", Value: i["fds/sprite"]},
		{Name: "idle sprite of 200: threads of the host", Value: i["threads/sprite"]},
		{Name: "idle sprite of 200: threads of its init", Value: i["threads/init"]},
	}, nil
}
