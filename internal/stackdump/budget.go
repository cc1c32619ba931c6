package stackdump

import "unsafe"

// A text of many tiny threads or frames would take far more memory than itself.
// Real dumps do not come near this budget.
const (
	budgetBase   = 4 << 20 // bytes, however short the text
	budgetShare  = 3       // half bytes for each byte of the text
	arenaStep    = 1024    // frames
	frameCost    = int(unsafe.Sizeof(Frame{}))
	threadGrowth = 2 // a growing slice holds its threads twice
	threadCost   = threadGrowth * int(unsafe.Sizeof(Thread{}))
)

// budget is the memory that may still be taken for threads and frames, in bytes.
type budget int

func newBudget(length int) budget { return budget(budgetBase + length*budgetShare/2) }

// spend takes n bytes, if they are there.
func (b *budget) spend(n int) bool {
	if int(*b) < n {
		return false
	}
	*b -= budget(n)
	return true
}
