package axcl

// Node is a file of /dev by which the vendor's library reaches a card on PCIe.
type Node struct {
	Name string // in /dev
	For  string // what the library does with it
	// Several: only machines with several cards need it, and those with one may not have it.
	Several bool
}

// Nodes are all of them. The first is the one that the library needs to start. The user that runs
// the library must be able to read and write each that is there: the first alone is not enough.
func Nodes() []Node {
	return []Node{
		{Name: "axcl_host", For: "to start"},
		{Name: "msg_userdev", For: "for every message"},
		{Name: "ax_mmb_dev", For: "for the memory that the card reads and writes"},
		{Name: "p2p", For: "between several cards", Several: true},
		{Name: "ax_pcie_dma_transfer", For: "between several cards", Several: true},
	}
}
