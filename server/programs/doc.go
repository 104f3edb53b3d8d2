// Package programs is the table of the programs that people connect to a server: what to set in
// each, how 'axle launch' starts it, and how many tokens its first prompt has. The page's view
// Connect, 'axle launch' and docs/integrations.md are made from it, so that they say the same.
//
// The table is data and does nothing. It is safe for concurrent use; callers do not change it.
package programs
