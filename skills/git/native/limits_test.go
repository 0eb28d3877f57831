package native

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// packed makes one object of a pack: its header of type and claimed size, then content, deflated.
func packed(kind byte, size uint64, base, content []byte) []byte {
	b := []byte{kind<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(content) // into memory
	w.Close()
	return append(append(b, base...), z.Bytes()...)
}

// TestPacksThatUnpackTooLarge: an object is judged by the size that it would have, before memory is spent on it.
func TestPacksThatUnpackTooLarge(t *testing.T) {
	const blob, refDelta, huge = 3, 7, 1 << 40
	base := sha1.Sum([]byte("blob 1\x00x"))
	small := packed(blob, 1, nil, []byte("x"))
	bomb := binary.AppendUvarint(binary.AppendUvarint(nil, 1), huge)
	for name, test := range map[string]struct {
		objects [][]byte
		exit    int
	}{
		"an object":          {[][]byte{packed(blob, huge, nil, nil)}, protocol.ExitLimit},
		"what a delta makes": {[][]byte{small, packed(refDelta, uint64(len(bomb)), base[:], bomb)}, protocol.ExitLimit},
		"more than it says":  {[][]byte{packed(blob, 1, nil, make([]byte, 1<<20))}, protocol.ExitFailed},
		"less than it says":  {[][]byte{packed(blob, 10, nil, []byte("x"))}, protocol.ExitFailed},
		"fewer objects":      {nil, protocol.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := workspace.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(max(len(test.objects), 1)))
			for _, o := range test.objects {
				pack = append(pack, o...)
			}
			sum := sha1.Sum(pack)
			file, dir := filepath.Join(root.Dir(), "x.bundle"), filepath.Join(root.Dir(), "clone")
			header := "# v2 git bundle\n1111111111111111111111111111111111111111 refs/heads/main\n\n"
			if err := os.WriteFile(file, append(append([]byte(header), pack...), sum[:]...), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			_, err = Engine{}.Clone(context.Background(), engine.CloneSpec{
				Root: root, From: engine.Source{URL: file, Protocol: "file", Local: true, Bundle: true}, Dir: dir, RemoteURL: "https://example.com/x.git",
			})
			if exitOf(err) != test.exit {
				t.Errorf("clone = %v (exit %d), want exit %d", err, exitOf(err), test.exit)
			}
		})
	}
}
