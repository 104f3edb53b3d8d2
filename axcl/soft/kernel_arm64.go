package soft

// fast: every arm64 processor has NEON.
const fast = true

const kernels = "NEON"
