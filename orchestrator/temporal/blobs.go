package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"
)

// MaxPayload is the size above which a payload is a digest in the history, and a blob elsewhere. The server refuses payloads of
// 2 MB.
const MaxPayload = 128 << 10

const blobEncoding = "binary/lattice-blob"

// Blobs keeps payloads by the digests of their contents. All nodes need the same one.
type Blobs interface {
	// Read fails if there is no such blob.
	Read(digest string) ([]byte, error)
	// Write returns when the blob survives a loss of power. A blob that is there counts as new again, within a day.
	Write(digest string, content []byte) error
	// RemoveBefore removes the blobs that were written before a time, and returns how many.
	RemoveBefore(ctx context.Context, t time.Time) (int, error)
}

// fresh is for how long a blob that is there is not written again.
const fresh = 24 * time.Hour

// codec keeps large payloads as blobs.
type codec struct{ blobs Blobs }

// blob stands for a payload.
type blob struct {
	SHA256 string `json:"sha256"`
	Size   int    `json:"size"`
}

// newConverter returns the converter of payloads, for clients, workers and replays alike.
func newConverter(b Blobs) converter.DataConverter {
	return workflow.DataConverterWithoutDeadlockDetection(converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec{b}))
}

// Encode is part of converter.PayloadCodec.
func (c codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		out[i] = p
		if len(p.Data) <= MaxPayload {
			continue
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encode a payload: %w", err)
		}
		sum := sha256.Sum256(raw)
		ref := blob{hex.EncodeToString(sum[:]), len(raw)}
		if err := c.blobs.Write(ref.SHA256, raw); err != nil {
			return nil, fmt.Errorf("keep a payload of %d bytes: %w", len(raw), err)
		}
		data, err := json.Marshal(ref)
		if err != nil {
			return nil, err
		}
		out[i] = &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(blobEncoding)}, Data: data}
	}
	return out, nil
}

// Decode is part of converter.PayloadCodec.
func (c codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		out[i] = p
		if string(p.Metadata[converter.MetadataEncoding]) != blobEncoding {
			continue
		}
		var ref blob
		if err := json.Unmarshal(p.Data, &ref); err != nil {
			return nil, fmt.Errorf("read the digest of a payload: %w", err)
		}
		raw, err := c.read(ref)
		if err != nil {
			return nil, fmt.Errorf("read a payload: %w", err)
		}
		out[i] = new(commonpb.Payload)
		if err := proto.Unmarshal(raw, out[i]); err != nil {
			return nil, fmt.Errorf("decode payload %s: %w", ref.SHA256, err)
		}
	}
	return out, nil
}

func (c codec) read(ref blob) ([]byte, error) {
	if !isDigest(ref.SHA256) {
		return nil, fmt.Errorf("%q is not a digest", ref.SHA256)
	}
	raw, err := c.blobs.Read(ref.SHA256)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != ref.SHA256 {
		return nil, fmt.Errorf("blob %s does not have the content of its digest", ref.SHA256)
	}
	return raw, nil
}

func isDigest(name string) bool {
	sum, err := hex.DecodeString(name)
	return err == nil && len(sum) == sha256.Size
}

// Folder keeps blobs in files of a folder, which it makes.
type Folder string

// Read is part of Blobs, as all below.
func (f Folder) Read(digest string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), digest))
}

func (f Folder) Write(digest string, content []byte) error {
	path := filepath.Join(string(f), digest)
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < fresh {
		return nil
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(string(f), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // unless it was renamed
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f Folder) RemoveBefore(_ context.Context, t time.Time) (removed int, err error) {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, file := range files {
		info, failed := file.Info()
		ours := isDigest(file.Name()) || strings.HasPrefix(file.Name(), ".new-") // such as those of a process that was killed
		if !ours || errors.Is(failed, fs.ErrNotExist) || failed == nil && (!info.Mode().IsRegular() || !info.ModTime().Before(t)) {
			continue
		}
		if failed == nil {
			failed = os.Remove(filepath.Join(string(f), file.Name()))
		}
		if err = errors.Join(err, failed); failed == nil {
			removed++
		}
	}
	return removed, err
}
