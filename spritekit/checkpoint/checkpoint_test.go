package checkpoint_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/checkpoint"
)

// answer serves one connection with raw bytes and returns the socket and what was asked.
func answer(t *testing.T, raw string) (socket string, asked <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sk") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	request := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		request <- line
		io.WriteString(conn, raw)
	}()
	t.Cleanup(func() { l.Close(); <-done; os.RemoveAll(dir) })
	return filepath.Join(dir, "s"), request
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"

func TestCreateReadsEveryKindOfAnswer(t *testing.T) {
	t.Parallel()
	done := `{"type":"complete","data":"Checkpoint v1 created successfully"}` + "\n"
	for _, tc := range []struct{ name, raw, id, fail string }{
		{"to the end of the connection", head + "\r\n" + `{"type":"info","data":"  ID: v8"}` + "\n" + done, "v8", ""},
		{"chunked", head + "Transfer-Encoding: chunked\r\n\r\n" + "10\r\n" + `{"type":"info"}` + "\n\r\n" + "3f;x=y\r\n" + done[:63] + "\r\n1\r\n" + done[63:] + "\r\n0\r\n\r\n", "v1", ""},
		{"chunked and cut off", head + "Transfer-Encoding: chunked\r\n\r\n40\r\n" + done[:30], "", "unexpected EOF"},
		{"chunk of no size", head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "", "bad chunk size"},
		{"length", head + "Content-Length: 64\r\n\r\n" + done, "v1", ""},
		{"shorter than its length", head + "Content-Length: 70\r\n\r\n" + done, "", "unexpected EOF"},
		{"structured id", head + "\r\n" + `{"type":"complete","id":"chk_1","data":"Checkpoint v3 created"}`, "chk_1", ""},
		{"failure under 200", head + "\r\n" + `{"type":"error","error":"disk full"}` + "\n" + done, "", "disk full"},
		{"no end", head + "\r\n" + `{"type":"info","data":"ID: v1"}`, "", "ended too early"},
		{"no id", head + "\r\n" + `{"type":"complete","data":"Checkpoint created successfully"}`, "", "named no checkpoint"},
		{"hostile id", head + "\r\n" + `{"type":"complete","id":"../../x"}`, "", "named no checkpoint"},
		{"no JSON", head + "\r\nhello\n", "", "no JSON"},
		{"status", "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nboom", "", "500 Oops: boom"},
		{"no HTTP", "SSH-2.0-x\r\n", "", "does not speak HTTP"},
		{"nothing", "", "", "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			socket, asked := answer(t, tc.raw)
			id, err := checkpoint.Client{Socket: socket}.Create(context.Background(), "why")
			if id != tc.id || (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("Create = %q, %v; want %q, %q", id, err, tc.id, tc.fail)
			}
			if got := <-asked; got != "POST /v1/checkpoint HTTP/1.1\r\n" {
				t.Errorf("asked %q", got)
			}
		})
	}
}

func TestWithoutSocket(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "gone"), "/dev/null/x"} {
		if _, err := (checkpoint.Client{Socket: socket}).Create(context.Background(), ""); !errors.Is(err, checkpoint.ErrUnavailable) {
			t.Errorf("Create with socket %q = %v", socket, err)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	socket, _ := answer(t, "HTTP/1.1 200 OK\r\n\r\n"+`[{"id":"v2","comment":"x"},{"id":"Current"}]`)
	list, err := checkpoint.Client{Socket: socket}.List(context.Background())
	if err != nil || len(list) != 2 || list[0].ID != "v2" {
		t.Errorf("List = %+v, %v", list, err)
	}
}
