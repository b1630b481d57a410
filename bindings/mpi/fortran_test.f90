! SPDX-License-Identifier: Apache-2.0
! The three ways in which Fortran calls MPI: each sums in place and not, moves, and waits for a sum in flight.
subroutine by_header(failures)
  implicit none
  include 'mpif.h'
  integer :: failures, rank, ranks, i, error, request
  real :: a(1000), b(1000)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  do i = 1, 1000
    a(i) = real(rank + mod(i, 7)) - 3.0
  end do
  call MPI_Allreduce(a, b, 1000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  do i = 1, 1000
    if (abs(b(i) - (real(ranks * (ranks - 1)) / 2.0 + ranks * (real(mod(i, 7)) - 3.0))) > 1e-4) failures = failures + 1
  end do
  call MPI_Iallreduce(MPI_IN_PLACE, a, 1000, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, request, error)
  call MPI_Wait(request, MPI_STATUS_IGNORE, error)
  do i = 1, 1000
    if (a(i) /= real(ranks - 1 + mod(i, 7)) - 3.0) failures = failures + 1
  end do
end subroutine

subroutine by_module(failures)
  use mpi
  implicit none
  integer :: failures, rank, ranks, i, error, counts(64)
  integer :: a(640), part(10)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  do i = 1, 10 * ranks
    a(i) = i * (rank - 1)
  end do
  counts = 10
  call MPI_Reduce_scatter(a, part, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  do i = 1, 10
    if (part(i) /= (10 * rank + i) * (ranks * (ranks - 1) / 2 - ranks)) failures = failures + 1
  end do
  call MPI_Allgather(part, 10, MPI_INTEGER, a, 10, MPI_INTEGER, MPI_COMM_WORLD, error)
  do i = 1, 10 * ranks
    if (a(i) /= i * (ranks * (ranks - 1) / 2 - ranks)) failures = failures + 1
  end do
  call MPI_Barrier(MPI_COMM_WORLD, error)
end subroutine

subroutine by_f08(failures)
  use mpi_f08
  implicit none
  integer :: failures, rank, ranks, i
  double precision :: a(1000)
  type(MPI_Request) :: requests(2)
  type(MPI_Comm) :: copy
  call MPI_Comm_dup(MPI_COMM_WORLD, copy)
  call MPI_Comm_rank(copy, rank)
  call MPI_Comm_size(copy, ranks)
  do i = 1, 1000
    a(i) = dble(i) * (rank - 1)
  end do
  call MPI_Allreduce(MPI_IN_PLACE, a, 1000, MPI_DOUBLE_PRECISION, MPI_SUM, copy)
  do i = 1, 1000
    if (abs(a(i) - dble(i) * (ranks * (ranks - 1) / 2 - ranks)) > 1d-9) failures = failures + 1
  end do
  a = dble(rank)
  call MPI_Ibcast(a, 1000, MPI_DOUBLE_PRECISION, ranks - 1, copy, requests(1))
  call MPI_Ibarrier(copy, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  do i = 1, 1000
    if (a(i) /= dble(ranks - 1)) failures = failures + 1
  end do
  call MPI_Comm_free(copy)
end subroutine

program fortran_test
  use mpi
  implicit none
  integer :: failures, error
  failures = 0
  call MPI_Init(error)
  call by_header(failures)
  call by_module(failures)
  call by_f08(failures)
  call MPI_Finalize(error)
  if (failures /= 0) error stop 1
end program
