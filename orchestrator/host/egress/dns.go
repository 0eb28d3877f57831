package egress

import (
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	typeSVCB  dnsmessage.Type = 64
	typeHTTPS dnsmessage.Type = 65
)

// maxQuestion bounds one DNS message; a question with its options is far shorter.
const maxQuestion = 4096

// resolver tells whether a name may be reached, and which address stands for it.
type resolver interface {
	// allowed judges a name, and keeps the denial when there is one.
	allowed(name string) bool
	assign(name string) (netip.Addr, bool)
	// odd is called for questions about records that are not needed to reach an allowed name.
	odd(name, kind string)
}

// answerQuery replies to one DNS message; nil when it deserves no reply. Names that may be reached have an IPv4 address and
// nothing else. All others are refused, as are other records of any name: they could carry a message.
func answerQuery(question []byte, r resolver) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil || head.Response || len(question) > maxQuestion {
		return nil
	}
	reply := dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RecursionAvailable: true}
	questions, err := p.AllQuestions()
	switch {
	case err != nil || len(questions) != 1:
		reply.RCode = dnsmessage.RCodeFormatError
		return packReply(reply, nil, nil)
	case head.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
		return packReply(reply, questions, nil)
	}
	q := questions[0]
	var addr *netip.Addr
	reply.RCode, addr = decideQuery(q, r)
	return packReply(reply, questions, addr)
}

func decideQuery(q dnsmessage.Question, r resolver) (dnsmessage.RCode, *netip.Addr) {
	name, err := normalName(q.Name.String())
	if err != nil || q.Class != dnsmessage.ClassINET {
		return dnsmessage.RCodeRefused, nil
	}
	if name == "localhost" && q.Type == dnsmessage.TypeA {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		return dnsmessage.RCodeSuccess, &loopback
	}
	if !r.allowed(name) {
		return dnsmessage.RCodeRefused, nil
	}
	switch q.Type {
	case dnsmessage.TypeA:
		addr, ok := r.assign(name)
		if !ok {
			return dnsmessage.RCodeServerFailure, nil
		}
		return dnsmessage.RCodeSuccess, &addr
	case dnsmessage.TypeAAAA, typeHTTPS, typeSVCB:
		return dnsmessage.RCodeSuccess, nil // there is none
	default:
		r.odd(name, q.Type.String())
		return dnsmessage.RCodeRefused, nil
	}
}

// packReply writes a reply. Questions that were read can be written.
func packReply(h dnsmessage.Header, questions []dnsmessage.Question, addr *netip.Addr) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), h)
	b.EnableCompression()
	if len(questions) == 1 {
		q := questions[0]
		if b.StartQuestions() != nil || b.Question(q) != nil {
			return nil
		}
		if addr != nil && b.StartAnswers() == nil {
			head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: uint32(answerTTL.Seconds()) / 2}
			if b.AResource(head, dnsmessage.AResource{A: addr.As4()}) != nil {
				return nil
			}
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}
