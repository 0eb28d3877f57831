// Package netns readies the network of a sandbox: a network namespace whose traffic leads to sockets of the host. Start with
// [SetUp]. It decides nothing about addresses: the host judges each connection.
package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// loIndex is the loopback interface's number in a new network namespace.
const loIndex = 1

// SetUp readies the new network namespace and sends the sockets that got its traffic to the host. It needs
// CAP_NET_ADMIN over the namespace, which init has in its privileged stage only.
func SetUp(control *channel.Socket) error {
	if err := raiseLoopback(); err != nil {
		return spec.FailedAt("set up the network", err)
	}
	// Ports below 1024 belong to no service in a network without neighbours. Kernels without the knob keep them for root.
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
	tcp, tcpPort, err := listenLoopback(unix.SOCK_STREAM, 0)
	if err != nil {
		return spec.FailedAt("listen in the network", err)
	}
	defer tcp.Close()
	udp, udpPort, err := listenLoopback(unix.SOCK_DGRAM, 0)
	if err != nil {
		return spec.FailedAt("listen in the network", err)
	}
	defer udp.Close()
	if err := redirectAll(tcpPort, udpPort); err != nil {
		return offerProxy(control, err)
	}
	if err := makeLocal(); err != nil {
		return spec.FailedAt("route the network", err)
	}
	return control.HandAlone(channel.Reply{Op: channel.OpNetwork}, tcp, udp)
}

// offerProxy hands over one listener that programs must know of, because nothing can be redirected.
func offerProxy(control *channel.Socket, why error) error {
	tcp, _, err := listenLoopback(unix.SOCK_STREAM, spec.ProxyPort)
	if err != nil {
		return spec.FailedAt("listen in the network", err)
	}
	defer tcp.Close()
	return control.HandAlone(channel.Reply{Op: channel.OpNetwork, Error: why.Error()}, tcp)
}

// listenLoopback opens a socket on 127.0.0.1; port 0 chooses one.
func listenLoopback(kind, port int) (socket *os.File, chosen int, err error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("socket: %w", err)
	}
	socket = os.NewFile(uintptr(fd), "network")
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("listen on 127.0.0.1:%d: %w", port, err), socket.Close())
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("getsockname: %w", err), socket.Close())
	}
	return socket, own.(*unix.SockaddrInet4).Port, nil
}

// raiseLoopback brings the loopback interface up and gives it an address that is no loopback address: C libraries take a
// machine that has none for one without a network, and do not ask for IPv4 addresses.
func raiseLoopback() error {
	own := netip.MustParseAddr(spec.OwnIP).As4()
	link := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(link[4:], loIndex)
	binary.NativeEndian.PutUint32(link[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(link[12:], unix.IFF_UP)

	addr := []byte{unix.AF_INET, 32, 0, unix.RT_SCOPE_UNIVERSE}
	addr = binary.NativeEndian.AppendUint32(addr, loIndex)
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.IFA_LOCAL, Data: own[:]}, {Type: unix.IFA_ADDRESS, Data: own[:]}})
	if err != nil {
		return err
	}
	return routeRequests(
		netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWLINK}, Data: link},
		netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWADDR, Flags: netlink.Create | netlink.Excl}, Data: append(addr, attributes...)},
	)
}

// makeLocal makes every IPv4 address one of this namespace: ip route add local 0.0.0.0/0 dev lo src OwnIP.
func makeLocal() error {
	own := netip.MustParseAddr(spec.OwnIP).As4()
	route := []byte{unix.AF_INET, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
	attributes, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.RTA_OIF, Data: binary.NativeEndian.AppendUint32(nil, loIndex)},
		{Type: unix.RTA_PREFSRC, Data: own[:]},
	})
	if err != nil {
		return err
	}
	return routeRequests(netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Create | netlink.Excl}, Data: append(route, attributes...)})
}

func routeRequests(messages ...netlink.Message) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return fmt.Errorf("open rtnetlink: %w", err)
	}
	for _, m := range messages {
		m.Header.Flags |= netlink.Request | netlink.Acknowledge
		if _, err := conn.Execute(m); err != nil {
			return errors.Join(fmt.Errorf("rtnetlink request %d: %w", m.Header.Type, err), conn.Close())
		}
	}
	return conn.Close()
}

// redirectAll leads all TCP but the box's own to tcpPort, and questions about names to udpPort. All else that would leave the box
// is refused at once, so that nothing waits for an answer: other UDP, ICMP. In the words of nft:
//
//	table ip sprite {
//	  chain redirect { type nat hook output priority dstnat
//	    ip daddr 127.0.0.0/8 return; ip daddr 198.18.0.2 return
//	    ip protocol tcp redirect to :tcpPort
//	    udp dport 53 redirect to :udpPort }
//	  chain refuse { type filter hook output priority filter
//	    ip daddr 127.0.0.0/8 accept; ip daddr 198.18.0.2 accept; ct state established,related accept
//	    reject with icmp admin-prohibited } }
func redirectAll(tcpPort, udpPort int) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "sprite"})
	out := conn.AddChain(&nftables.Chain{
		Name: "redirect", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest,
	})
	refuse := conn.AddChain(&nftables.Chain{
		Name: "refuse", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
	})
	add := func(chain *nftables.Chain, parts ...[]expr.Any) {
		rule := &nftables.Rule{Table: table, Chain: chain}
		for _, p := range parts {
			rule.Exprs = append(rule.Exprs, p...)
		}
		conn.AddRule(rule)
	}
	loopback, own := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix(spec.OwnIP+"/32")
	add(out, matchPrefix(loopback), giveVerdict(expr.VerdictReturn))
	add(out, matchPrefix(own), giveVerdict(expr.VerdictReturn))
	add(out, matchProtocol(unix.IPPROTO_TCP), redirectTo(tcpPort))
	add(out, matchProtocol(unix.IPPROTO_UDP), toPort(53), redirectTo(udpPort))

	add(refuse, matchPrefix(loopback), giveVerdict(expr.VerdictAccept))
	add(refuse, matchPrefix(own), giveVerdict(expr.VerdictAccept))
	add(refuse, matchAnswers(), giveVerdict(expr.VerdictAccept))
	const adminProhibited = 13
	add(refuse, []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: adminProhibited}})
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("set nftables rules: %w", err)
	}
	return nil
}

// The parts that rules are made of. Register 1 carries a value from one expression to the next.

func matchPrefix(p netip.Prefix) []expr.Any {
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-p.Bits()))
	addr := p.Addr().As4()
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: addr[:]},
	}
}

func matchProtocol(number byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}
}

func toPort(port int) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, uint16(port))},
	}
}

func matchAnswers() []expr.Any {
	mask := binary.NativeEndian.AppendUint32(nil, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func redirectTo(port int) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binary.BigEndian.AppendUint16(nil, uint16(port))},
		&expr.Redir{RegisterProtoMin: 1},
	}
}

func giveVerdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }
