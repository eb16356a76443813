"""A user's own data, a table of SMILES or a list of PyG graphs: read, checked, split."""

from outland.tables.data_list import splits_from_data_list
from outland.tables.settings import TableSettings
