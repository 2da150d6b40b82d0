"""The experiments of the Integrated Hessians paper, in versions that run on two cores."""
