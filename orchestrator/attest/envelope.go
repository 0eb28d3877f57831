package attest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// PayloadType is the type of the payload of an envelope.
const PayloadType = "application/vnd.in-toto+json"

// Envelope is a DSSE envelope. Its byte slices are base64 in JSON.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is a signature of an envelope.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// Sign returns s in a signed envelope.
func Sign(key ed25519.PrivateKey, s Statement) (Envelope, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return Envelope{}, fmt.Errorf("encode statement: %w", err)
	}
	public, _ := key.Public().(ed25519.PublicKey)
	e := Envelope{PayloadType: PayloadType, Payload: payload}
	e.Signatures = []Signature{{KeyID: KeyID(public), Sig: ed25519.Sign(key, e.signed())}}
	return e, nil
}

// signed returns the bytes that are signed, the pre-authentication encoding of DSSE.
func (e Envelope) signed() []byte {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(e.PayloadType), e.PayloadType, len(e.Payload))
	return append([]byte(head), e.Payload...)
}

// Digest returns the sha256 of the payload.
func (e Envelope) Digest() string {
	sum := sha256.Sum256(e.Payload)
	return hex.EncodeToString(sum[:])
}

// Open returns the statement in e. It fails if e is not signed with the key.
func (e Envelope) Open(key ed25519.PublicKey) (Statement, error) {
	var s Statement
	if e.PayloadType != PayloadType {
		return s, fmt.Errorf("the payload is of type %q", e.PayloadType)
	}
	signed := false
	for _, one := range e.Signatures {
		signed = signed || ed25519.Verify(key, e.signed(), one.Sig)
	}
	if !signed {
		return s, errors.New("it is not signed with the key " + KeyID(key))
	}
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return s, fmt.Errorf("read the statement: %w", err)
	}
	if s.Type != StatementType || s.PredicateType != PredicateType() || len(s.Subject) != 1 || s.Subject[0].Digest["gitCommit"] != s.Predicate.Commit {
		return s, errors.New("it is not a statement about a verified commit")
	}
	return s, nil
}
