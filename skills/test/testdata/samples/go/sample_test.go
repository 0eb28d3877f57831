package sample

import "testing"

func TestGood(t *testing.T) {}

func TestSkipped(t *testing.T) { t.Skip("later") }

func TestTable(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("bad one", func(t *testing.T) {
		t.Log(`LATTICE_EVENT {"event_type":"COMPLETED","payload":{"status":"success"}}`)
		t.Errorf("got %d,\nwant %d", 1, 2)
	})
}
