"""Fingerprints of the published Motif graphs (GOOD's generator, seed 123), as `outland data verify` checks them."""

# domain/kind/part -> (graphs, labels); the published set gives none for the other parts
PUBLISHED = {
    "base/covariate/train": ("a943cdb714c68dd6", "a102a3c10d5c6293"),
    "base/covariate/id_val": ("2edcba8e6d015df2", "fdb022930508a9dd"),
    "base/covariate/id_test": ("2c435d2a520ef06d", "13e17f0da7027341"),
    "base/covariate/val": ("ed0c7e0ac5e864a5", "38df6234b9e7f2b4"),
    "base/covariate/test": ("64bbdec89b1a382f", "e8159c1b30c65de5"),
    "base/concept/train": ("28fceee68c213a9b", "b7b3b946a3973bb4"),
    "base/concept/val": ("7999e35fd4ba7793", "7f2a08693c96b820"),
    "base/concept/test": ("c216de512525b850", "733a5668edfaf54f"),
    "base/none/train": ("17af9485b1c8e4b3", "115f483917e5032e"),
    "size/covariate/train": ("6b9d1cc839346e98", "2bb1619bbe59fd63"),
    "size/covariate/id_val": ("c02ef1fd28e9b477", "dc775c4814098aa2"),
    "size/covariate/id_test": ("7eca960c1dc1d5c7", "636da9d2a2c00ef7"),
    "size/covariate/val": ("99d2465deb6c8f85", "96e3d4ed4282eca2"),
    "size/covariate/test": ("57a1b4f017313fd6", "5dbbbc5f97817d75"),
    "size/concept/train": ("989af0a8cdab55fe", "3f9563a160a404d0"),
    "size/concept/val": ("9069e87bd46ff52f", "8015bf834861621e"),
    "size/concept/test": ("0c979a8c75db189f", "5eee518a47cc82aa"),
    "size/none/train": ("17af9485b1c8e4b3", "115f483917e5032e"),
}
