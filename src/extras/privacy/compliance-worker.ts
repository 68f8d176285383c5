// Executes the erasures of open requests. Every `serve` has a worker; one worker holds the lease. A failed request is
// retried with a back-off and doesn't delay others. A request stays open until the flusher has erased its visitor's
// rows. If a worker pauses for longer than its lease, two may work: at worst a visitor who returns in between is erased
// twice.