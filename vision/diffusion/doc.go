// Package diffusion is the arithmetic around the nets of Stable Diffusion 1.5: the noise that a
// seed gives, which is that of Python's torch; the timesteps of a drawing; and what a step makes of
// a latent and of the noise that the denoiser sees in it. It knows no card and no files.
//
// A [Way] is one drawing's, of one goroutine, and so is a [Noise]. Nothing needs to be closed.
package diffusion
