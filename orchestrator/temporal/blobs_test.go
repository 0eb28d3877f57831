package temporal

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

const accessKey, secretKey = "lattice", "canary-5b1f09"

// serveBucket starts a server that speaks S3 and checks signatures, and returns the address of an empty bucket there, with a prefix.
func serveBucket(t *testing.T) (address string) {
	t.Helper()
	objects := s3mem.New()
	if err := objects.CreateBucket(t.Context(), "histories"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(objects, gofakes3.WithV4Auth(map[string]string{accessKey: secretKey})).Server())
	t.Cleanup(server.Close)
	return server.URL + "/histories/of/lattice?region=us-east-1"
}

// A blob is read as it was written, and one that is not there or was changed is an error. Old blobs are removed, and nothing else.
func TestBlobs(t *testing.T) {
	bucket, err := OpenBucket(t.Context(), serveBucket(t), credentials.NewStaticV4(accessKey, secretKey, ""))
	if err != nil {
		t.Fatal(err)
	}
	folder := Folder(filepath.Join(t.TempDir(), "blobs"))
	for name, b := range map[string]Blobs{"folder": folder, "bucket": bucket} {
		t.Run(name, func(t *testing.T) {
			large, small := strings.Repeat("a", 2*MaxPayload), "small"
			convert := newConverter(b)
			p, err := convert.ToPayloads(large, small)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Payloads[0].Data) > 200 || !strings.Contains(string(p.Payloads[1].Data), small) {
				t.Errorf("the payloads are %.300s", p)
			}
			var got, kept string
			if err := convert.FromPayloads(p, &got, &kept); err != nil || got != large || kept != small {
				t.Errorf("FromPayloads = %d bytes, %q, %v", len(got), kept, err)
			}
			if _, err := convert.ToPayloads(large); err != nil { // is there
				t.Error(err)
			}

			digest := strings.Repeat("0", 64)
			if _, err := b.Read(digest); err == nil {
				t.Error("a blob that is not there was read")
			}
			if err := b.Write(digest, []byte("changed")); err != nil {
				t.Fatal(err)
			}
			p.Payloads[0].Data = []byte(`{"sha256":"` + digest + `","size":7}`)
			if err := convert.FromPayloads(p, &got, &kept); err == nil || !strings.Contains(err.Error(), "content of its digest") {
				t.Errorf("a blob that was changed: %v", err)
			}
			p.Payloads[0].Data = []byte(`{"sha256":"../config.toml","size":7}`)
			if err := convert.FromPayloads(p, &got, &kept); err == nil || !strings.Contains(err.Error(), "is not a digest") {
				t.Errorf("a path instead of a digest: %v", err)
			}

			if err := b.Write("notes", []byte("of a person")); err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				before time.Time
				want   int
			}{{time.Now().Add(-time.Hour), 0}, {time.Now().Add(time.Hour), 2}, {time.Now().Add(time.Hour), 0}} {
				if removed, err := b.RemoveBefore(t.Context(), step.before); err != nil || removed != step.want {
					t.Errorf("RemoveBefore(%v) = %d, %v, want %d", step.before, removed, err, step.want)
				}
			}
			if notes, err := b.Read("notes"); err != nil || !bytes.Equal(notes, []byte("of a person")) {
				t.Errorf("a file of another name is %q, %v", notes, err)
			}
		})
	}
}

// A blob that is written again after a day counts as new, so that it is not removed too early.
func TestBlobsAreRenewed(t *testing.T) {
	f, digest := Folder(t.TempDir()), strings.Repeat("0", 64)
	old := time.Now().Add(-10 * fresh)
	for range 2 {
		if err := f.Write(digest, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if removed, err := f.RemoveBefore(t.Context(), old.Add(time.Hour)); err != nil || removed != 0 {
			t.Errorf("RemoveBefore = %d, %v", removed, err)
		}
		if err := os.Chtimes(filepath.Join(string(f), digest), old, old); err != nil {
			t.Fatal(err)
		}
	}
}

// A bucket that is not there, and keys that the server does not know, are errors when a leader starts.
func TestBucketRefuses(t *testing.T) {
	address := serveBucket(t)
	for name, c := range map[string]struct{ address, secret string }{
		"other secret": {address, "guessed"},
		"other bucket": {strings.Replace(address, "histories", "others", 1), secretKey},
		"no bucket":    {"https://s3.example.com/", secretKey},
	} {
		if _, err := OpenBucket(t.Context(), c.address, credentials.NewStaticV4(accessKey, c.secret, "")); err == nil {
			t.Errorf("%s: OpenBucket succeeded", name)
		}
	}
}
