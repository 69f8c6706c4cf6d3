package binarycheck

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
)

type format string

// The formats that are known.
const (
	elf   format = "ELF"
	pe    format = "PE"
	machO format = "Mach-O"
)

// header is what the start of a binary says.
type header struct {
	format format
	// architectures that the binary is for, as images spell them; a Mach-O
	// binary may have several. Unknown machines are "machine 0x1234".
	architectures []string
}

func (h header) String() string { return string(h.format) + " " + strings.Join(h.architectures, "+") }

// formatOf is the format of a system's programs.
func formatOf(p oci.Platform) format {
	switch p.OS {
	case "windows":
		return pe
	case "darwin", "ios":
		return machO
	}
	return elf
}

// knows reports whether the architecture of a platform can be told from headers.
func knows(p oci.Platform) bool {
	for _, a := range elfMachines() {
		if a.name == p.Architecture {
			return true
		}
	}
	return false
}

// runs reports whether a platform can run the binary. x86 processors run 32-bit
// programs; Arm ones need not.
func (h header) runs(p oci.Platform) bool {
	if h.format != formatOf(p) {
		return false
	}
	return slices.Contains(h.architectures, p.Architecture) || p.Architecture == "amd64" && slices.Contains(h.architectures, "386")
}

func readHeader(b []byte) (header, bool) {
	switch {
	case len(b) >= 20 && string(b[:4]) == "\x7fELF":
		return readELF(b)
	case len(b) >= 64 && string(b[:2]) == "MZ":
		return readPE(b)
	case len(b) >= 8:
		return readMachO(b)
	}
	return header{}, false
}

// elfMachine is how an architecture looks in an ELF header: e_machine, class
// (1: 32 bits, 2: 64, 0: either) and byte order (1: little, 2: big, 0: either).
type elfMachine struct {
	name         string
	machine      uint16
	class, order byte
}

func elfMachines() []elfMachine {
	return []elfMachine{
		{"386", 3, 1, 1}, {"amd64", 62, 0, 1}, {"arm", 40, 1, 0}, {"arm64", 183, 0, 0},
		{"riscv64", 243, 2, 1}, {"ppc64le", 21, 2, 1}, {"ppc64", 21, 2, 2}, {"s390x", 22, 2, 2},
		{"loong64", 258, 2, 1}, {"mips64le", 8, 2, 1}, {"mips64", 8, 2, 2}, {"mipsle", 8, 1, 1}, {"mips", 8, 1, 2},
	}
}

// readELF reads the identification and e_machine (System V ABI, 4.1).
func readELF(b []byte) (header, bool) {
	class, order := b[4], b[5]
	var bytes binary.ByteOrder = binary.LittleEndian
	if order == 2 {
		bytes = binary.BigEndian
	}
	machine := bytes.Uint16(b[18:])
	for _, m := range elfMachines() {
		if m.machine == machine && (m.class == 0 || m.class == class) && (m.order == 0 || m.order == order) {
			return header{elf, []string{m.name}}, true
		}
	}
	return header{elf, []string{fmt.Sprintf("machine %#x", machine)}}, true
}

// readPE reads Machine of the COFF header (PE format, "COFF File Header").
func readPE(b []byte) (header, bool) {
	at := int64(binary.LittleEndian.Uint32(b[0x3c:]))
	if at+6 > int64(len(b)) || string(b[at:at+4]) != "PE\x00\x00" {
		return header{}, false
	}
	machine := binary.LittleEndian.Uint16(b[at+4:])
	names := map[uint16]string{0x14c: "386", 0x8664: "amd64", 0x1c0: "arm", 0x1c4: "arm", 0xaa64: "arm64"}
	if name, ok := names[machine]; ok {
		return header{pe, []string{name}}, true
	}
	return header{pe, []string{fmt.Sprintf("machine %#x", machine)}}, true
}

// readMachO reads cputype, of a fat binary all of them (mach-o/loader.h, fat.h).
// A Java class begins like a fat binary: its version is what would be a number of
// architectures, and is larger.
func readMachO(b []byte) (header, bool) {
	const javaVersion = 43
	switch binary.BigEndian.Uint32(b) {
	case 0xcffaedfe, 0xcefaedfe:
		return header{machO, []string{cpu(binary.LittleEndian.Uint32(b[4:]))}}, true
	case 0xcafebabe:
		n := binary.BigEndian.Uint32(b[4:])
		h := header{format: machO}
		for i := range int(min(n, javaVersion)) {
			if at := 8 + 20*i; at+4 <= len(b) {
				h.architectures = append(h.architectures, cpu(binary.BigEndian.Uint32(b[at:])))
			}
		}
		return h, n > 0 && n < javaVersion
	}
	return header{}, false
}

func cpu(t uint32) string {
	names := map[uint32]string{7: "386", 0x01000007: "amd64", 12: "arm", 0x0100000c: "arm64"}
	if name, ok := names[t]; ok {
		return name
	}
	return fmt.Sprintf("cputype %#x", t)
}
