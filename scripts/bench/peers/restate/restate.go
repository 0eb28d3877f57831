// Package restate runs flows as handlers of a Restate server, each step a durable action of the handler, which is served
// from this process. Start with Open. The server is npm's.
package restate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

const (
	npmPackage = "@restatedev/restate-server@1.7.12"
	node       = "bench" // and the folder of its sockets
)

type handlers struct {
	server  *peer.Server
	own     *http.Server
	ingress *http.Client
	version string
}

// Open installs the server where that is due, starts it, and makes the handler known to it.
func Open(ctx context.Context, dir string) (peer.Engine, error) {
	program, err := install(ctx, dir)
	if err != nil {
		return nil, err
	}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, err
	}
	h := &handlers{version: strings.TrimSpace(string(version)), ingress: over(filepath.Join(dir, node, "ingress.sock"))}
	h.server, err = peer.Start(dir, nil, []string{"RESTATE_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=1", "RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE=256MB", "RESTATE_ADMIN__DISABLE_WEB_UI=true"},
		program, "--base-dir", dir, "--node-name", node, "--listen-mode", "unix", "--default-num-partitions", "4", "--log-filter", "warn", "--log-disable-ansi-codes", "true")
	if err != nil {
		return nil, err
	}
	if err := h.register(ctx, dir); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// install returns npm's program, from $LATTICE_NPM_CACHE when it is there.
func install(ctx context.Context, dir string) (string, error) {
	if cache := os.Getenv("LATTICE_NPM_CACHE"); cache != "" {
		dir = cache
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	program := filepath.Join(dir, "node_modules", "@restatedev", "restate-server-"+runtime.GOOS+"-"+arch, "bin", "restate-server")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("restate-server is not in %s and npm is not on this machine", dir)
	}
	out, err := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", npmPackage).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm cannot install %s: %w: %s", npmPackage, err, bytes.TrimSpace(out))
	}
	_, err = os.Stat(program)
	return program, err
}

// over is a client of whoever listens on a socket.
func over(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

func (h *handlers) register(ctx context.Context, dir string) error {
	flow := sdk.NewService("Flow").Handler("run", sdk.NewServiceHandler(run))
	handler, err := server.NewRestate().WithLogger(slog.DiscardHandler, true).Bind(flow).Handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h.own = &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: 5 * time.Second}
	h.own.Protocols.SetUnencryptedHTTP2(true)
	go h.own.Serve(listener) // until Close
	admin := over(filepath.Join(dir, node, "admin.sock"))
	defer admin.CloseIdleConnections()
	if err := h.server.Await(ctx, func(ctx context.Context) error {
		return post(ctx, admin, "deployments", map[string]string{"uri": "http://" + listener.Addr().String()})
	}); err != nil {
		return err
	}
	return h.server.Await(ctx, func(ctx context.Context) error { return h.Run(ctx, peer.Flow{ID: "first", Steps: 1}) })
}

func run(ctx sdk.Context, f peer.Flow) (sdk.Void, error) {
	for range f.Steps {
		if _, err := sdk.Run(ctx, func(ctx sdk.RunContext) (sdk.Void, error) { return sdk.Void{}, f.Step(ctx) }); err != nil {
			return sdk.Void{}, err
		}
	}
	return sdk.Void{}, nil
}

func (h *handlers) Run(ctx context.Context, f peer.Flow) error {
	return post(ctx, h.ingress, "Flow/run", f)
}

func post(ctx context.Context, to *http.Client, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://restate/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := to.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, answer)
	}
	return err
}

func (h *handlers) About() string {
	return h.version + ", 4 partitions, a server of its own behind HTTP: timers, retries, a queue, queries and replication are in it"
}

func (h *handlers) Close() error {
	h.ingress.CloseIdleConnections()
	err := h.server.Stop(syscall.SIGTERM)
	if h.own != nil {
		err = errors.Join(err, h.own.Close())
	}
	return err
}
