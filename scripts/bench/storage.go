package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// checkpoints measures checkpoints, restores and forks through the API on sprites of the given numbers of files, in overlays
// and on a temporary btrfs. The targets do not depend on the number of files.
func checkpoints(ctx context.Context, dir string, rounds int, sizes []int) (figures []figure, err error) {
	btrfs, unmount, why := mountBtrfs(ctx, dir)
	if why == nil {
		defer func() { err = errors.Join(err, unmount()) }()
		if err := os.Setenv("LATTICE_BENCH_BTRFS", btrfs); err != nil {
			return nil, err
		}
	}
	for _, driver := range []string{"overlay", "btrfs"} {
		if driver == "btrfs" && why != nil {
			figures = append(figures, figure{Name: "checkpoints on btrfs", Skipped: why.Error()})
			break
		}
		for _, files := range sizes {
			name := fmt.Sprintf("BenchmarkCheckpoint/%s/files=%d", driver, files)
			got, err := goBench(ctx, dir, "./orchestrator/host", fmt.Sprintf("^BenchmarkCheckpoint$/^%s$/^files=%d$", driver, files), 1,
				"-benchtime", strconv.Itoa(rounds)+"x")
			if err != nil {
				return figures, err
			}
			m := got[name]
			if m == nil {
				return figures, fmt.Errorf("the benchmark %s is not there", name)
			}
			figures = append(figures, storageFigures(fmt.Sprintf("%s, %d files: ", driver, files), m)...)
		}
	}
	return figures, nil
}

// storageFigures are the medians of one driver and size.
func storageFigures(of string, m map[string]float64) []figure {
	var figures []figure
	for _, f := range []struct {
		unit, what string
		limit      float64 // ms; 0 = none
	}{
		{"ms/new", "first checkpoint, all files new", 0}, {"ms/digest", "work in the background after the first checkpoint", 0},
		{"ms/create", "checkpoint", 10}, {"ms/restore", "restore", 15}, {"ms/fork", "fork", 15},
		{"ms/between", "session ends, checkpoint, session begins", 20}, {"ms/durable", "checkpoint, until durable", 0},
	} {
		row := figure{Name: of + f.what, Value: m[f.unit], Unit: "ms"}
		if f.limit > 0 {
			row = row.atMost(m[f.unit], f.limit)
		}
		figures = append(figures, row)
	}
	live := figure{Name: of + "checkpoint while a process runs", Value: m["ms/live"], Unit: "ms", Ratio: m["ms/live"] / m["ms/copy"],
		Beside: fmt.Sprintf("copying the 500 files that changed: %.0f ms", m["ms/copy"])}
	figures = append(figures, live.atMost(live.Ratio, 1.5))
	if m["ms/turn"] > 0 {
		figures = append(figures, figure{Name: of + "turn of an agent after npm install", Value: m["ms/turn"], Unit: "ms", Ratio: m["ms/turn"] / m["ms/layer"],
			Beside: fmt.Sprintf("on a new layer: %.0f ms", m["ms/layer"])})
	}
	return figures
}

// mountBtrfs mounts a btrfs from a sparse file below dir.
func mountBtrfs(ctx context.Context, dir string) (at string, unmount func() error, err error) {
	if os.Geteuid() != 0 {
		return "", nil, errors.New("only root mounts a btrfs")
	}
	mkfs, err := exec.LookPath("mkfs.btrfs")
	if err != nil {
		return "", nil, err
	}
	image, at := filepath.Join(dir, "btrfs.img"), filepath.Join(dir, "btrfs")
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(8<<30), f.Close(), os.Mkdir(at, 0o700))
	}
	if err != nil {
		return "", nil, err
	}
	for _, step := range [][]string{{mkfs, "-q", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("%s: %w: %s", step[0], err, out)
		}
	}
	return at, func() error {
		out, err := exec.CommandContext(context.WithoutCancel(ctx), "umount", at).CombinedOutput()
		if err != nil {
			return fmt.Errorf("umount %s: %w: %s", at, err, out)
		}
		return nil
	}, nil
}
